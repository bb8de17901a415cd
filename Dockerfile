# One image for Airflow's services and for Spark's master and workers, because executors unpickle the project's code and
# need the same packages as the driver. Debian 12 is the newest Debian release that has Java 17.
FROM python:3.11-slim-bookworm AS wheel
WORKDIR /build
COPY requirements.txt pyproject.toml ./
# The project's own dependencies and the drivers of Airflow's metadata database, without the extras: no local stack, no
# tests. With the library for Delta tables, and what submits to Kubernetes. A list of its own, so that a change of the code does not install them again.
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > dependencies.txt \
    && echo apache-airflow-providers-postgres >> dependencies.txt \
    && echo deltalake >> dependencies.txt \
    && echo apache-airflow-providers-cncf-kubernetes >> dependencies.txt
RUN pip install --no-cache-dir --constraint requirements.txt setuptools
COPY README.md LICENSE ./
COPY include include
COPY spark_jobs spark_jobs
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist .

FROM python:3.11-slim-bookworm
# procps: Spark's start scripts call `ps`.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

# A new named volume takes the owner of the folder that it is mounted on, so the folder of the logs must exist in the image.
RUN useradd --create-home --uid 50000 tideline \
    && install --directory --owner=tideline --group=tideline /opt/tideline /opt/airflow /opt/airflow/logs /opt/lake
USER tideline
WORKDIR /opt/tideline

ENV PATH=/opt/tideline/env/bin:$PATH \
    AIRFLOW_HOME=/opt/airflow \
    PYSPARK_PYTHON=/opt/tideline/env/bin/python \
    TIDELINE_PIPELINES=/opt/tideline/pipelines

COPY --chown=tideline:tideline --from=wheel /build/requirements.txt /build/dependencies.txt ./
RUN python -m venv env \
    && pip install --no-cache-dir --constraint requirements.txt --requirement dependencies.txt

COPY --chown=tideline:tideline --from=wheel /build/dist dist
RUN pip install --no-cache-dir --no-deps dist/*.whl \
    && tideline jars jars

COPY --chown=tideline:tideline dags dags
COPY --chown=tideline:tideline plugins plugins
COPY --chown=tideline:tideline include/pipelines pipelines
COPY --chown=tideline:tideline deploy/kubernetes kubernetes
