"""The situations, in the order of the page: importing this fills `SITUATIONS`."""

# ruff: noqa: I001  the order of these is the order of the page
from integration.clients.situation import SITUATIONS as SITUATIONS
from integration.clients.situations import admin as admin
from integration.clients.situations import records as records
from integration.clients.situations import groups as groups
from integration.clients.situations import transactions as transactions
from integration.clients.situations import streams as streams
from integration.clients.situations import restarts as restarts
from integration.clients.situations import security as security
