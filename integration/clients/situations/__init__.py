"""The situations, in the order of the page: importing this fills `SITUATIONS`."""

from integration.clients.situations import admin as admin
from integration.clients.situations import records as records
