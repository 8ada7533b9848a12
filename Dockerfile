# The same installation as `make install`: the locked dependencies by their hashes, then the project.
FROM python:3.11-slim AS build
WORKDIR /srv/turngate
RUN python -m venv .venv
COPY requirements.lock requirements-build.lock ./
RUN .venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r requirements.lock -r requirements-build.lock
COPY pyproject.toml README.md LICENSE alembic.ini ./
COPY alembic alembic
COPY app app
RUN .venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation -e .

FROM python:3.11-slim
# Postgres may run as this user, so the embedded one works here as well.
RUN useradd --uid 10001 --create-home turngate \
    && install -d -m 0700 -o turngate -g turngate /var/lib/turngate
COPY --from=build /srv/turngate /srv/turngate
ENV PATH=/srv/turngate/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TURNGATE_DATA_DIR=/var/lib/turngate
WORKDIR /srv/turngate
USER turngate
VOLUME /var/lib/turngate
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD \
    ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["turngate", "serve", "--host", "0.0.0.0"]
