# One image for Airflow's services and for Spark's master and workers, because executors unpickle the project's code and
# need the same packages as the driver. Debian 12 is the newest Debian release that has Java 17.
FROM python:3.11-slim-bookworm

# procps: Spark's start scripts call `ps`.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

# A new named volume takes the owner of the folder that it is mounted on, so the folder of the logs must exist in the image.
RUN useradd --create-home --uid 50000 tideline \
    && install --directory --owner=tideline --group=tideline /opt/tideline /opt/airflow /opt/airflow/logs
USER tideline
WORKDIR /opt/tideline

ENV PATH=/opt/tideline/.local/env/bin:$PATH \
    AIRFLOW_HOME=/opt/airflow \
    PYSPARK_PYTHON=/opt/tideline/.local/env/bin/python

COPY --chown=tideline:tideline requirements.txt ./
RUN python -m venv .local/env \
    && pip install --no-cache-dir --requirement requirements.txt

COPY --chown=tideline:tideline pyproject.toml requirements.in ivy.xml README.md LICENSE ./
COPY --chown=tideline:tideline include include
COPY --chown=tideline:tideline spark_jobs spark_jobs
# Editable, as on a developer's machine, because the project looks for its pipelines and its Spark job beside its package.
# The jars of the local Kafka broker are not needed here.
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable . \
    && python -m tideline.local.jars \
    && rm -rf .local/jars/kafka .local/cache

COPY --chown=tideline:tideline dags dags
