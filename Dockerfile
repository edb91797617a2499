# kshim with the kafka-python console clients. Small and without root; nothing is built at start-up.
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE /src/
COPY shim /src/shim
COPY protocol /src/protocol
RUN pip install --no-cache-dir "/src[compression,demo]" \
    && rm -r /src \
    && useradd --system --uid 10001 --user-group kshim \
    && install -d -o kshim -g kshim /data

USER kshim
WORKDIR /data
VOLUME /data
EXPOSE 9092
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=5 \
    CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 9092), 2).close()"]

# By itself for clients on the host: docker run --publish 9092:9092 kshim
ENTRYPOINT ["kshim"]
CMD ["serve", "--listen", "0.0.0.0:9092", "--advertised", "localhost:9092", "--data-dir", "/data"]
