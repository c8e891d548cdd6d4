# A service for an exported policy (docs/serve.md). Only wheels are installed, so no compiler is needed, and no JAX: an export
# is run by onnxruntime.
FROM python:3.12-slim

COPY . /source
RUN pip install --no-cache-dir --only-binary :all: \
        httptools msgspec numpy onnxruntime prometheus-client pyarrow rich starlette tyro uvicorn uvloop \
    && pip install --no-cache-dir --no-deps /source \
    && rm -rf /source \
    && useradd --system --create-home gridcount \
    && install -d -o gridcount /decisions

USER gridcount
EXPOSE 8080
VOLUME ["/policy", "/decisions"]
# the token is in the environment variable GRIDCOUNT_TOKEN; without it the service does not start
HEALTHCHECK CMD python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/ready', timeout=3)"
ENTRYPOINT ["gridcount", "serve"]
CMD ["/policy", "--host", "0.0.0.0", "--log", "/decisions"]
