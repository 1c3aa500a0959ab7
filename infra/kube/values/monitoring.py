"""Prometheus, Alertmanager and Grafana: what they keep, what they load, and whom they tell."""

from infra.kube.values.common import SYSTEM, ClusterFacts

MONITORED = {"penstock.io/monitored": "true"}
GRAFANA_SECRET = "grafana-admin"
ALERTMANAGER = "alertmanager"


def kube_prometheus_stack(facts: ClusterFacts) -> dict[str, object]:
    """Two Prometheus replicas that keep two weeks; rules and monitors with our label are loaded from anywhere."""
    return {
        "global": {"imageRegistry": facts.mirror("kube-prometheus-stack").root},
        "nodeExporter": {"enabled": False},
        "kubeControllerManager": {"enabled": False},
        "kubeScheduler": {"enabled": False},
        "kubeEtcd": {"enabled": False},
        "prometheusOperator": SYSTEM,
        "kube-state-metrics": SYSTEM,
        "prometheus": {"prometheusSpec": _prometheus()},
        "alertmanager": _alertmanager(facts),
        "grafana": {
            **SYSTEM,
            "replicas": 2,
            "admin": {"existingSecret": GRAFANA_SECRET, "userKey": "admin-user", "passwordKey": "admin-password"},
            "sidecar": {"dashboards": {"enabled": True, "label": "penstock.io/dashboard", "labelValue": "true"}},
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
    """Alerts go where the region's alarms go, by the account's own right to publish; no token lies anywhere."""
    topic = {"topic_arn": facts.alarm_topic_arn, "sigv4": {"region": facts.site.region}, "send_resolved": True}
    quiet = {"receiver": "nobody", "matchers": ['alertname = "Watchdog"']}
    return {
        "serviceAccount": {"create": True, "name": ALERTMANAGER},
        "alertmanagerSpec": {**SYSTEM, "replicas": 3, "alertmanagerConfigSelector": {"matchLabels": MONITORED}},
        "config": {
            "route": {
                "receiver": "people",
                "group_by": ["alertname", "severity"],
                "group_wait": "30s",
                "group_interval": "5m",
                "repeat_interval": "4h",
                "routes": [quiet],
            },
            "receivers": [{"name": "people", "sns_configs": [topic]}, {"name": "nobody"}],
        },
    }
