import pytest

from outhaul.errors import InvalidRequest, NotFound, Refused


def test_a_tenant_is_added_found_and_changed(tenants):
    added = tenants.add("acme & söhne", "pro", 3)
    assert tenants.get("acme & söhne") == added
    assert (added.plan, added.max_concurrent_jobs, added.export_enabled) == ("pro", 3, True)
    changed = tenants.set("acme & söhne", export_enabled=False)
    assert (changed.export_enabled, changed.plan, changed.max_concurrent_jobs) == (False, "pro", 3)
    assert [tenant.name for tenant in tenants.all()] == ["acme & söhne"]


def test_what_is_wrong_is_named(tenants):
    tenants.add("acme", "free", 2)
    with pytest.raises(Refused, match="already a tenant 'acme'"):
        tenants.add("acme", "free", 2)
    with pytest.raises(NotFound, match="Did you mean 'acme'"):
        tenants.get("acmee")
    with pytest.raises(NotFound, match="'acmee'"):
        tenants.set("acmee", plan="pro")
    for name in ("", "a/b", "..", "a\nb", "a\0b", "x" * 256):
        with pytest.raises(InvalidRequest, match="tenant: a name has"):
            tenants.add(name, "free", 2)
    with pytest.raises(InvalidRequest, match="plan: 'gold' is not a known plan"):
        tenants.add("b", "gold", 2)
    with pytest.raises(InvalidRequest, match="max_concurrent_jobs: must be at least 1"):
        tenants.set("acme", max_concurrent_jobs=0)
