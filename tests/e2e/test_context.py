"""context: the provider, the address, the key and the profile that the next command would use, and where each comes from."""

import json

import pytest

from test_login import KEY, install

pytestmark = pytest.mark.once

ID = "alicloud-express"
HOST = "cn-hangzhou.sandbox.aliyuncs.com"


def write(abx, text):
    file = abx.home / "config.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


def context(abx, *args, **more):
    return abx.ok("context", "--json", *args, **more).json


def test_without_anything_it_is_the_default_without_a_key(abx):
    r = abx.ok("context", "--json", drop=["ABX_PROVIDER"])
    assert r.json == {"provider": ID, "source": "default", "home": str(abx.home)}
    assert "abx provider login alicloud-express" in r.errors
    assert context(abx) == {"provider": "local", "source": "ABX_PROVIDER", "endpoint": "this machine", "home": str(abx.home)}


def test_each_profile_has_its_own(abx):
    file = write(abx, f"""profile = "work"
[providers.{ID}]
region = "cn-beijing"
api_key = "e2b_0123456789"
[profiles.work]
provider = "{ID}"
[profiles.work.providers.{ID}]
region = "cn-hangzhou"
family = "sandbox"
api_key = "env:WORK_KEY"
[profiles.here]
provider = "local"
""")
    drop = ["ABX_PROVIDER"]
    c = context(abx, drop=drop)
    assert (c["provider"], c["endpoint"], c["account"], c["key"], c["profile"]) == (
        ID, f"https://api.{HOST}", f"{file}:10", "env:WORK_KEY", "work")
    assert c["profiles"] == ["work", "here"]
    c = context(abx, "--profile", "here", drop=drop)
    assert (c["provider"], c["endpoint"], c["profile"]) == ("local", "this machine", "here") and "key" not in c
    abx.ok("config", "unset", "profile")
    c = context(abx, "-P", ID)
    assert (c["endpoint"], c["account"], c["key"]) == ("https://api.cn-beijing.e2b.fc.aliyuncs.com", f"{file}:3", "****6789")
    c = context(abx, "-P", ID, env={"ABX_API_KEY": "e2b_of-variable", "ABX_DOMAIN": "example.com"}, drop=drop)
    assert (c["account"], c["key"], c["endpoint"]) == ("ABX_API_KEY", "****able", "https://api.example.com")
    assert "e2b_0123456789" not in json.dumps(c)


@pytest.mark.parametrize("env,used", [
    ({"E2B_API_KEY": KEY}, False),
    ({"E2B_API_KEY": KEY, "E2B_DOMAIN": "e2b.app"}, False),
    ({"E2B_API_KEY": KEY, "E2B_DOMAIN": HOST, "E2B_API_URL": "https://api.e2b.app"}, False),
    ({"E2B_API_KEY": KEY, "E2B_DOMAIN": f"{HOST}.evil.example"}, False),
    ({"E2B_API_KEY": KEY, "E2B_API_URL": f"https://evil.example/{HOST}"}, False),
    ({"E2B_API_KEY": KEY, "E2B_DOMAIN": HOST}, True),
    ({"E2B_API_KEY": KEY, "E2B_API_URL": f"https://api.{HOST}"}, True),
])
def test_the_services_own_variables_count_only_when_they_are_about_it(abx, env, used):
    c = context(abx, "-P", ID, env=env)
    if used:
        assert (c["account"], c["key"], c["endpoint"]) == ("E2B_API_KEY", "****6789", f"https://api.{HOST}")
    else:
        assert not {"account", "key", "endpoint"} & set(c)
    assert "key" not in context(abx, env=env)  # local
    c = context(abx, "-P", ID, env={**env, "ABX_API_KEY": "e2b_first-9999", "ABX_DOMAIN": "example.com"})
    assert c["account"] == "ABX_API_KEY"


def test_a_plugin_shows_its_own_and_asks_nobody(abx):
    install(abx)
    file = write(abx, f'[providers.demo]\napi_key = "{KEY}"\napi_url = "https://api.example"\n')
    c = context(abx)
    assert (c["provider"], c["endpoint"], c["account"], c["key"]) == ("demo", "https://api.example", f"{file}:2", "****6789")
    r = abx.ok("context", "-vv")
    assert KEY.encode() not in r.out + r.err
