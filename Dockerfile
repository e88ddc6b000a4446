# One image for the API and for the workers: the command says which of them a container is.
#
#   docker build --tag darkroom:0.1.0 .
#   docker run darkroom:0.1.0 -m api
#   docker run darkroom:0.1.0 worker.py --serve generate

FROM python:3.11.16-slim-bookworm AS builder

WORKDIR /build
COPY pyproject.toml constraints.txt docker/requirements.py ./

# Optional dependencies by their names in pyproject.toml, separated by spaces.
ARG EXTRAS=""

# Only what the sources need: they are copied below, so Darkroom itself is not installed. Only
# wheels: there is no compiler here, and a missing wheel should say so at once.
RUN python -m venv --without-pip /opt/venv \
    && python requirements.py ${EXTRAS} > requirements.txt \
    && pip --python /opt/venv/bin/python install --no-cache-dir --only-binary=:all: \
        --constraint constraints.txt --requirement requirements.txt \
    && pip --python /opt/venv/bin/python check


FROM python:3.11.16-slim-bookworm

# A fixed id, so that files on a volume keep their owner from one image to the next. An empty
# named volume mounted at /data takes over the owner of this folder.
RUN groupadd --gid 10001 darkroom \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin darkroom \
    && install --directory --owner 10001 --group 10001 --mode 0750 /data

# All addresses, as a container must; without API keys, or DARKROOM_ALLOW_NO_KEYS=on, the API says so
# and doesn't start.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DARKROOM_DATA_DIR=/data \
    DARKROOM_API_HOST=0.0.0.0

COPY --from=builder /opt/venv /opt/venv

WORKDIR /app
COPY activities/ activities/
COPY workflows/ workflows/
COPY api/ api/
COPY worker.py ./

USER 10001:10001
EXPOSE 8000 8001

# No shell in between: SIGTERM has to reach Python, which then hands running jobs back.
ENTRYPOINT ["python"]
CMD ["-m", "api"]
