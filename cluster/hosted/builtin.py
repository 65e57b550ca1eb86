"""The workflow types that every node hosts without being asked."""

from raftflow_sdk import ActivityFailure, Context, RetryPolicy, WorkflowFailure


def order_saga(ctx: Context) -> str:
    """Reserve, wait for an approval, charge, ship; give the goods back on failure.

    `examples/order_saga` has the same code and the activities: a worker may run either half.
    """
    reserved = ctx.activity("reserve", ctx.input)
    ctx.sleep("settle", 2.0)
    if ctx.wait_for_signal("gate", "approved") != "yes":
        ctx.activity("release", reserved)
        raise WorkflowFailure("rejected")
    try:
        ctx.activity("charge", reserved, retry=RetryPolicy(max_attempts=3, initial_backoff=0.2))
    except ActivityFailure as err:
        ctx.activity("release", reserved)
        raise WorkflowFailure(f"charge failed: {err}") from err
    shipment: str = ctx.activity("ship", reserved)
    return shipment


WORKFLOWS = {"OrderSaga": order_saga}
