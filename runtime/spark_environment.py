"""The environment of Spark's processes: the JVM, `spark-submit`, and the workers that they start.

They execute SQL, packages and plug-ins of a project, so they get only variables on a list: those that Java,
Spark, Python and the system need, and those that the project, its storage and its keys require. None of these
processes has the credentials of other programs in the same shell.

A name that ends with ``*`` means all variables with that prefix.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Iterable, Mapping
from typing import Final

from parquetry.text.secret_names import is_secret_name

UTF8_LOCALE: Final = "C.UTF-8"
"""A locale that needs no package. The locale of cron and of many images supports only ASCII file names."""

_NEEDED: Final = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
        *("TMP", "TEMP", "LOCALE_ARCHIVE", "LOCPATH", "GUIX_LOCPATH"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY",
        *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
        "HADOOP_TOKEN_FILE_LOCATION",
        *("YARN_CONF_DIR", "HIVE_CONF_DIR", "KUBECONFIG"),
        *("VIRTUAL_ENV", "CONDA_PREFIX"),
    )
)
_FAMILIES: Final = (
    *("HADOOP_*", "YARN_*", "KUBERNETES_*", "NIX_LD*"),
    *("LC_*", "KRB5*", "SPARK_*", "PYSPARK_*", "_PYSPARK_*", "PYTHON*", "PARQUETRY_*"),
    *("MALLOC_*", "ARROW_*", "PYARROW_*", "OMP_*", "OPENBLAS_*", "MKL_*"),
)
"""Families of variables, without those that have the name of a secret."""

_CLIENTS: Final = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_S3: Final = ("AWS_*", "BOTO_CONFIG", "FSSPEC_S3_*", "HADOOP_CREDSTORE_PASSWORD")
_GCS: Final = (
    *("GOOGLE_*", "GCLOUD_PROJECT", "CLOUDSDK_CONFIG", "GCE_METADATA_*"),
    *("STORAGE_EMULATOR_HOST", "FSSPEC_GS_*", "FSSPEC_GCS_*"),
)
_VARIABLES_BY_SCHEME: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": (*_S3, *_CLIENTS),
    "s3a": (*_S3, *_CLIENTS),
    "gs": (*_GCS, *_CLIENTS),
}

STORAGE_VARIABLES: Final = tuple(dict.fromkeys((*_S3, *_GCS, *_CLIENTS)))
"""The variables of all types of storage, for a process that may open tables anywhere."""


def storage_variables(*places: str) -> tuple[str, ...]:
    """Return the variables that the storage of these locations needs: credentials, proxies, certificates."""
    schemes = {place.partition(":")[0].lower() for place in places}
    return tuple(
        dict.fromkeys(name for scheme in sorted(schemes) for name in _VARIABLES_BY_SCHEME.get(scheme, ()))
    )


def key_variables(references: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the variables in these references to keys (``env:NAME``)."""
    parts = (reference.partition(":") for reference in references)
    return tuple(sorted({name for kind, _, name in parts if kind == "env"}))


def spark_environment(names: Iterable[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a JVM for Spark: the variables that are always needed, and ``names``.

    Java and its workers then encode file names as UTF-8. This depends on the locale in which Java starts, and
    no option of Java changes it.
    """
    families = selected_variables(_FAMILIES, environment)
    kept = {name: value for name, value in families.items() if not is_secret_name(name)}
    kept |= selected_variables((*_NEEDED, *names), environment)
    is_utf8 = locale.getencoding().upper() in ("UTF-8", "UTF8")
    return kept if is_utf8 else {**kept, "LC_ALL": UTF8_LOCALE}


def selected_variables(names: Iterable[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables with these names."""
    listed = frozenset(names)
    families = tuple(name[:-1] for name in listed if name.endswith("*"))
    return {name: value for name, value in environment.items() if name in listed or name.startswith(families)}
