# kshim with the kafka-python console clients. Small and without root; nothing is built at start-up.
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE /src/
COPY shim /src/shim
COPY protocol /src/protocol
RUN pip install --no-cache-dir "/src[compression,control,demo]" \
    && rm -r /src \
    && useradd --system --uid 10001 --user-group kshim \
    && install -d -o kshim -g kshim /data

# Each option of `kshim serve` and each of Kafka's keys is a variable: see docs/configuring.md.
# As it stands for clients on the host: docker run --publish 9092:9092 kshim
ENV KSHIM_LISTEN=0.0.0.0:9092 KSHIM_ADVERTISED=localhost:9092 KSHIM_DATA_DIR=/data

USER kshim
WORKDIR /data
VOLUME /data
EXPOSE 9092
# Asks the first plain-text listener for ApiVersions. With listeners of TLS only, replace it with --health-cmd.
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=5 CMD ["kshim", "health"]

ENTRYPOINT ["kshim"]
CMD ["serve"]
