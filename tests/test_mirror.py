"""Each module of the product is tested by the module of the mirrored name, or the exception says
where."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

VOCABULARY = "tests/engine/test_apply.py"  # words without behaviour, which every script speaks
SCRIPTS = "tests/engine/test_properties.py"
ROUTES = "tests/cluster/api/test_json_routes.py"
COMMAND_LINE = "tests/e2e/test_cli.py"
WHOLE_NODE = "tests/e2e/test_leader_loss.py"
STORE = "tests/cluster/store/test_store.py"
WHY = "tests/cluster/api/routes/test_why.py"
WHY_OF_RUNS = "tests/cluster/why/test_run.py"
ENVIRONMENT = "tests/testing/test_environment.py"

ELSEWHERE = {
    "engine/commands.py": VOCABULARY,
    "engine/effects.py": VOCABULARY,
    "engine/events.py": VOCABULARY,
    "engine/limits.py": VOCABULARY,
    "engine/rejections.py": VOCABULARY,
    "engine/state.py": VOCABULARY,
    "engine/transitions.py": VOCABULARY,
    "engine/decide/context.py": SCRIPTS,
    "engine/decide/plan.py": "tests/engine/decide/test_workflow.py",
    "engine/evolve/activity.py": SCRIPTS,
    "engine/evolve/attributes.py": SCRIPTS,
    "engine/evolve/cancel.py": SCRIPTS,
    "engine/evolve/child.py": SCRIPTS,
    "engine/evolve/decision.py": SCRIPTS,
    "engine/evolve/marker.py": SCRIPTS,
    "engine/evolve/message.py": SCRIPTS,
    "engine/evolve/namespace.py": SCRIPTS,
    "engine/evolve/retention.py": SCRIPTS,
    "engine/evolve/run.py": SCRIPTS,
    "engine/evolve/signal.py": SCRIPTS,
    "engine/evolve/timer.py": SCRIPTS,
    "engine/evolve/token.py": "tests/engine/decide/test_token.py",
    "engine/audit.py": "tests/engine/decide/test_token.py",
    "cluster/consensus/ending.py": "tests/cluster/consensus/test_processes.py",
    "cluster/consensus/insight.py": "tests/e2e/test_why_node.py",
    "cluster/why/own.py": "tests/e2e/test_why_node.py",
    "cluster/consensus/reviewed.py": "tests/cluster/consensus/test_core.py",
    "raftlog/mend.py": "tests/cluster/consensus/test_repair.py",
    "cluster/api/repairing.py": "tests/e2e/test_repair.py",
    "cluster/consensus/repair_exchange.py": "tests/cluster/consensus/test_recovery.py",
    "cluster/consensus/settings.py": "tests/cluster/consensus/test_driver.py",
    "cluster/otlp.py": "tests/cluster/test_tracing.py",
    "cluster/errors.py": "tests/cluster/api/test_status.py",
    "cluster/main.py": WHOLE_NODE,
    "cluster/from_config.py": WHOLE_NODE,
    "cluster/node.py": WHOLE_NODE,
    "cluster/api/grpc_answers.py": "tests/cluster/api/test_grpc_service.py",
    "cluster/api/grpc_commands.py": "tests/cluster/api/test_decisions.py",
    "cluster/api/grpc_fields.py": "tests/cluster/api/test_grpc_service.py",
    "cluster/api/grpc_messages.py": "tests/cluster/api/test_grpc_service.py",
    "cluster/api/handlers/common.py": ROUTES,
    "cluster/api/handlers/deletion.py": "tests/cluster/api/routes/test_steering.py",
    "cluster/api/handlers/families.py": "tests/cluster/api/routes/test_families.py",
    "cluster/api/handlers/runs.py": ROUTES,
    "cluster/api/handlers/access.py": "tests/cluster/api/routes/test_access.py",
    "cluster/api/signing.py": "tests/cluster/api/test_auth.py",
    "cluster/api/waiting.py": "tests/cluster/api/test_auth.py",
    "cluster/api/hosted_tasks.py": "tests/e2e/test_hosted.py",
    "cluster/api/limits.py": ROUTES,
    "cluster/api/page.py": "tests/cluster/api/test_http_server.py",
    "cluster/api/routes/node.py": ROUTES,
    "cluster/api/routes/request.py": ROUTES,
    "cluster/api/routes/runs.py": ROUTES,
    "cluster/api/routes/tasks.py": ROUTES,
    "cluster/api/shapes.py": "tests/cluster/api/test_openapi.py",
    "cluster/api/schema.py": "tests/cluster/api/test_openapi.py",
    "cluster/api/server.py": "tests/cluster/api/test_http_server.py",
    "cluster/api/services.py": ROUTES,
    "cluster/api/validation.py": ROUTES,
    "cluster/api/views.py": ROUTES,
    "cluster/api/handlers/why.py": WHY,
    "cluster/api/why_view.py": WHY,
    "cluster/cli/dev.py": COMMAND_LINE,
    "cluster/cli/devfile.py": "tests/cluster/cli/test_supervisor.py",
    "cluster/cli/errors.py": COMMAND_LINE,
    "cluster/cli/options.py": COMMAND_LINE,
    "cluster/cli/output.py": COMMAND_LINE,
    "cluster/cli/progress.py": COMMAND_LINE,
    "cluster/codec/values.py": "tests/cluster/codec/test_commands.py",
    "cluster/store/aggregates.py": STORE,
    "cluster/store/batch.py": STORE,
    "cluster/store/connection.py": STORE,
    "cluster/store/errors.py": STORE,
    "cluster/store/readers.py": STORE,
    "cluster/store/views.py": STORE,
    "cluster/why/facts.py": WHY_OF_RUNS,
    "cluster/why/gather.py": "tests/e2e/test_why_runs.py",
    "cluster/why/leaderless.py": WHY_OF_RUNS,
    "cluster/why/steps.py": WHY_OF_RUNS,
    "testing/answers.py": "tests/testing/test_faults.py",
    "testing/deployment.py": ENVIRONMENT,
    "testing/fakes.py": ENVIRONMENT,
    "testing/fresh.py": "tests/testing/test_faults.py",
    "testing/node.py": ENVIRONMENT,
    "testing/plan.py": "tests/testing/test_faults.py",
    "testing/run.py": ENVIRONMENT,
    "testing/workers.py": ENVIRONMENT,
}


def modules() -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for package in ("engine", "raftlog", "cluster", "testing")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name != "__init__.py"
    ]


@pytest.mark.parametrize("module", modules())
def test_a_module_has_its_test(module: str) -> None:
    path = Path(module)
    mirrored = ROOT / "tests" / path.parent / f"test_{path.name}"
    if module in ELSEWHERE:
        assert (ROOT / ELSEWHERE[module]).exists(), f"{ELSEWHERE[module]} is gone"
        assert not mirrored.exists(), f"{module} has its own test now: drop the exception"
    else:
        assert mirrored.exists(), (
            f"{module} has no tests/{path.parent}/test_{path.name}: "
            "write it, or say in this file which test covers it"
        )
