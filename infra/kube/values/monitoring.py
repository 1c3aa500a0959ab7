"""Prometheus, Alertmanager and Grafana: what they keep, what they load, and whom they tell."""

from infra.kube.values.common import CRITICAL, SYSTEM, ClusterFacts, resources

MONITORED = {"penstock.io/monitored": "true"}
GRAFANA_SECRET = "grafana-admin"
COLLECTED = (
    "cronjobs daemonsets deployments endpointslices horizontalpodautoscalers jobs leases limitranges "
    "mutatingwebhookconfigurations namespaces networkpolicies nodes persistentvolumeclaims persistentvolumes "
    "poddisruptionbudgets pods replicasets resourcequotas services statefulsets storageclasses "
    "validatingwebhookconfigurations volumeattachments"
).split()
"""Objects that kube-state-metrics counts: not Secrets and ConfigMaps, which it would have to read."""
_CONFIG_MAPS_HERE = {"resource": "configmap", "searchNamespace": "monitoring"}
"""By default Grafana reads Secrets and ConfigMaps of every namespace."""
ALERTMANAGER = "alertmanager"


def kube_prometheus_stack(facts: ClusterFacts) -> dict[str, object]:
    """Two Prometheus replicas that keep two weeks; rules and monitors with our label are loaded from anywhere.

    The chart's own rules and monitors carry that label, too. One Grafana: two would each have people's boards of their
    own, for neither keeps them anywhere else.
    """
    return {
        "global": {"imageRegistry": facts.mirror("kube-prometheus-stack").root},
        "nodeExporter": {"enabled": False},
        "kubeControllerManager": {"enabled": False},
        "kubeScheduler": {"enabled": False},
        "kubeEtcd": {"enabled": False},
        "kubeProxy": {"enabled": False},
        "commonLabels": MONITORED,
        "prometheusOperator": {
            **SYSTEM,
            **CRITICAL,
            "resources": resources("256Mi"),
            "prometheusConfigReloader": {"resources": resources("64Mi")},
            "admissionWebhooks": {"patch": {**SYSTEM, **CRITICAL, "resources": resources("64Mi")}},
        },
        "kube-state-metrics": {
            **SYSTEM,
            **CRITICAL,
            "resources": resources("512Mi"),
            "prometheus": {"monitor": {"additionalLabels": MONITORED}},
            "collectors": COLLECTED,
        },
        "prometheus": {"prometheusSpec": _prometheus()},
        "alertmanager": _alertmanager(facts),
        "grafana": {
            **SYSTEM,
            "priorityClassName": CRITICAL["priorityClassName"],
            "resources": resources("512Mi", cpu="100m"),
            "rbac": {"namespaced": True},
            "serviceMonitor": {"labels": MONITORED},
            "admin": {"existingSecret": GRAFANA_SECRET, "userKey": "admin-user", "passwordKey": "admin-password"},
            "sidecar": {
                "resources": resources("128Mi"),
                "dashboards": {
                    "enabled": True,
                    "label": "penstock.io/dashboard",
                    "labelValue": "true",
                    **_CONFIG_MAPS_HERE,
                },
                "datasources": _CONFIG_MAPS_HERE,
            },
            "testFramework": {"enabled": False},
        },
    }


def _prometheus() -> dict[str, object]:
    """The chart's own selectors ask for its release label, which nothing outside the chart carries."""
    ours = {"matchLabels": MONITORED}
    request = {"storageClassName": "encrypted", "resources": {"requests": {"storage": "200Gi"}}}
    kinds = ("rule", "podMonitor", "serviceMonitor")
    return {
        **SYSTEM,
        **CRITICAL,
        "resources": resources("8Gi", cpu="1"),
        "replicas": 2,
        "retention": "15d",
        "scrapeInterval": "15s",
        "evaluationInterval": "15s",
        "storageSpec": {"volumeClaimTemplate": {"spec": request}},
        "serviceMonitorSelectorNilUsesHelmValues": False,
        "topologySpreadConstraints": [],
        **{f"{kind}Selector": ours for kind in kinds},
        **{f"{kind}NamespaceSelector": {} for kind in kinds},
    }


def _alertmanager(facts: ClusterFacts) -> dict[str, object]:
    """Alerts go where the region's alarms go, by the account's own right to publish; no token lies anywhere.

    The alert that always fires goes to a topic of its own, and an alarm of AWS misses it. Silences outlive their pods.
    """
    topic = {"topic_arn": facts.alarm_topic_arn, "sigv4": {"region": facts.site.region}, "send_resolved": True}
    quiet = {"receiver": "nobody", "matchers": ['severity = "info"']}
    alive = {
        "receiver": "watchdog",
        "matchers": ['alertname = "Watchdog"'],
        "repeat_interval": "5m",
        "group_wait": "0s",
    }
    storage = {"storageClassName": "encrypted", "resources": {"requests": {"storage": "2Gi"}}}
    return {
        "serviceAccount": {"create": True, "name": ALERTMANAGER},
        "alertmanagerSpec": {
            **SYSTEM,
            **CRITICAL,
            "replicas": 3,
            "resources": resources("256Mi"),
            "storage": {"volumeClaimTemplate": {"spec": storage}},
            "alertmanagerConfigSelector": {"matchLabels": MONITORED},
        },
        "config": {
            "route": {
                "receiver": "people",
                "group_by": ["alertname", "severity"],
                "group_wait": "30s",
                "group_interval": "5m",
                "repeat_interval": "4h",
                "routes": [alive, quiet],
            },
            "receivers": [
                {"name": "people", "sns_configs": [topic]},
                {"name": "watchdog", "sns_configs": [{**topic, "topic_arn": facts.watchdog_topic_arn}]},
                {"name": "nobody"},
            ],
        },
    }
