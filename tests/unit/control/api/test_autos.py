"""Auto aliases in the operators' API: rules set, shown and taken away, and the report of their comparisons."""

import httpx

from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.rollout.arms import ArmSecond
from penstock.domain.serving.agreement import Agreement, Counts, Pair
from tests.support.controllers.in_memory import Room, registered


async def test_a_name_may_stand_for_rules(operator: httpx.AsyncClient, room: Room) -> None:
    """Set, shown with its history, taken away, noted in the audit log; what rules lead to stays."""
    version = await registered(operator)
    shares = {"shares": [{"version": version, "weight": 10_000}]}
    assert (await operator.put("/admin/v1/aliases/chat", json=shares)).status_code == 200
    rules = {"rules": [{"name": "small", "to": "chat", "prompt_tokens": 100}, {"name": "rest", "to": version}]}
    put = await operator.put("/admin/v1/autos/auto", json=rules)
    assert (put.status_code, [rule["name"] for rule in put.json()["rules"]]) == (200, ["small", "rest"])
    assert [auto["alias"] for auto in (await operator.get("/admin/v1/autos")).json()["autos"]] == ["auto"]
    many = [{"name": f"r{n}", "to": "chat"} for n in range(10_000)]
    refused = [
        await operator.delete("/admin/v1/aliases/chat"),
        await operator.put("/admin/v1/aliases/auto", json=shares),
        await operator.put("/admin/v1/autos/chat", json=rules),
        await operator.put("/admin/v1/autos/more", json={"rules": [{"name": "a", "to": "auto"}]}),
        await operator.put("/admin/v1/autos/more", json={"rules": [{"name": "a", "to": "chat", "prompt_token": 1}]}),
        await operator.put("/admin/v1/autos/more", content=b'{"rules":[{"name":"a","to":"chat","deadline_s":NaN}]}'),
        await operator.put("/admin/v1/autos/more", json={"rules": many}),
    ]
    assert [answer.status_code for answer in refused] == [409, 409, 400, 400, 400, 400, 400]
    assert (await operator.delete("/admin/v1/autos/auto")).status_code == 200
    assert (await operator.delete("/admin/v1/autos/auto")).status_code == 404
    history = (await operator.get("/admin/v1/autos/auto")).json()["history"]
    assert [past["auto"] is None for past in history] == [True, False]
    assert [act.what for act in await room.audit.newest(2)] == ["auto.remove", "auto.put"]
    assert (await operator.get("/admin/v1/autos/none")).status_code == 404


async def test_a_report_is_of_the_comparisons_of_one_alias(operator: httpx.AsyncClient, room: Room) -> None:
    """With ratios that are null where nothing is known; of hours that there may be, and of an alias that there is."""
    version = await registered(operator)
    shares = {"shares": [{"version": version, "weight": 10_000}]}
    assert (await operator.put("/admin/v1/aliases/chat", json=shares)).status_code == 200
    version = await registered(operator, "b")
    rules = [{"name": "short", "to": "chat"}, {"name": "rest", "to": version, "compare": "short"}]
    refused = await operator.put("/admin/v1/autos/auto", json={"rules": [{**rules[1], "compare": "none"}]})
    assert (refused.status_code, "is compared with 'none'" in refused.text) == (400, True)
    assert (await operator.put("/admin/v1/autos/auto", json={"rules": rules})).status_code == 200
    url = "/admin/v1/autos/auto/report"
    assert (await operator.get(url)).json()["pairs"] == []
    pair = Pair(Alias("auto"), "rest", VersionId(version), "short", VersionId("small@2"))
    counts = Counts(answered=99, pairs=10, untold=5, forms=5, forms_agreed=4, paid=100, other_paid=20)
    told = Agreement(pair=pair, tenant=TenantId("acme"), counts=counts)
    await room.arms.tell(ArmSecond(gateway="g", life="l", number=1, at=0, agreements=(told,)))
    (found,) = (await operator.get(url)).json()["pairs"]
    assert (found["forms_ratio"], found["texts_ratio"], found["price_ratio"]) == (0.8, None, 0.2)
    assert (found["texts_between"], found["tenants"], found["most"]) == (None, 1, 1.0)
    assert found["forms_between"][0] < 0.8 < found["forms_between"][1]
    bad = [f"{url}?hours=0", f"{url}?hours=169", f"{url}?hours=x", f"{url}?hours=nan", "/admin/v1/autos/chat/report"]
    assert [(await operator.get(one)).status_code for one in bad] == [400, 400, 400, 400, 404]
