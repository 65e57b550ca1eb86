"""A parcel service's little day: orders, deliveries and meters, as tests and pictures show them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from raftflow_sdk import ActivityFailure, ActivityInfo, Context, RetryPolicy, WorkflowFailure

BANK = RetryPolicy(max_attempts=4, initial_backoff=0.2, backoff_coefficient=2.0)
CARRIER = RetryPolicy(max_attempts=0, initial_backoff=600.0)


def order(ctx: Context) -> str:
    """Two reservations at once, the approval of a person, the bank, the parcel."""
    ctx.upsert_search_attributes({"customer": ctx.input})
    shelf = ctx.start_activity("reserve", ctx.input)
    check = ctx.start_activity("check_address", ctx.input)
    shelf.result()
    check.result()
    ctx.sleep("settle", 0.3)
    if ctx.wait_for_signal("gate", "approved") != "yes":
        ctx.activity("release", ctx.input)
        raise WorkflowFailure("rejected by the clerk", error_type="Rejected")
    try:
        ctx.activity("charge", ctx.input, retry=BANK)
    except ActivityFailure as err:
        ctx.activity("release", ctx.input)
        raise WorkflowFailure(f"charge failed: {err}", error_type="Unpaid") from err
    return str(ctx.activity("ship", ctx.input))


def trip(ctx: Context) -> str:
    """Three bookings at once beside a deadline, payment, and a passport that somebody must show."""
    ctx.upsert_search_attributes({"customer": "c-7", "region": "north"})
    deadline = ctx.start_timer("deadline", 3_600.0)
    bookings = [
        ctx.start_activity("book_flight", ctx.input),
        ctx.start_activity("book_hotel", ctx.input, retry=BANK),
        ctx.start_activity("book_car", ctx.input),
    ]
    for booking in bookings:
        booking.result()
    ctx.activity("charge", ctx.input, retry=BANK)
    tickets = ctx.start_activity("print_tickets", ctx.input)
    ctx.activity("insure", ctx.input)
    tickets.result()
    ctx.wait_for_signal("passport", "passport-shown")
    deadline.cancel()
    return f"{ctx.input} may begin"


def delivery(ctx: Context) -> str:
    parcels = [
        ctx.start_child("Parcel", f"{ctx.input}-{number}", workflow_id=f"{ctx.input}-{number}")
        for number in (1, 2, 3)
    ]
    return ", ".join(str(parcel.result()) for parcel in parcels)


def parcel(ctx: Context) -> str:
    ctx.activity("ship", ctx.input)
    ctx.wait_for_signal("handed over", "delivered")
    return f"{ctx.input} delivered"


def meter(ctx: Context) -> str:
    ctx.activity("reserve", ctx.input)
    number = int(ctx.input)
    if number < 3:
        ctx.continue_as_new(str(number + 1))
    return "read"


def pickup(ctx: Context) -> str:
    """A carrier that does not answer."""
    return str(ctx.activity("call_carrier", ctx.input, retry=CARRIER))


def failing(ctx: Context) -> str:
    """Ends with its input as error."""
    try:
        ctx.activity("refuse", ctx.input)
    except ActivityFailure as err:
        raise WorkflowFailure(str(ctx.input), error_type=str(ctx.input)) from err
    return "never"


def waiting(ctx: Context) -> str:
    """Waits for the signal that its input names."""
    return str(ctx.wait_for_signal(ctx.input or "gate", ctx.input or "approved"))


WORKFLOWS: dict[str, Callable[[Context], str]] = {
    "Order": order,
    "Trip": trip,
    "Delivery": delivery,
    "Parcel": parcel,
    "Meter": meter,
    "Pickup": pickup,
    "Failing": failing,
    "Waiting": waiting,
}


def reserve(order_id: str) -> str:
    time.sleep(0.12)
    return f"shelf of {order_id}"


def check_address(order_id: str) -> str:
    time.sleep(0.2)
    return "found"


def charge(order_id: str, info: ActivityInfo) -> str:
    time.sleep(0.08)
    if "declined" in order_id:
        raise ActivityFailure("card declined", error_type="Declined", non_retryable=True)
    if info.attempt < 3:
        raise ActivityFailure("the bank did not answer", error_type="BankTimeout")
    return "paid"


def book_flight(trip_id: str) -> str:
    time.sleep(0.9)
    return "LH 400"


def book_hotel(trip_id: str, info: ActivityInfo) -> str:
    time.sleep(0.2)
    if info.attempt < 3:
        raise ActivityFailure("the hotel's desk is closed", error_type="DeskClosed")
    return "room 12"


def book_car(trip_id: str) -> str:
    time.sleep(0.5)
    return "a small one"


def print_tickets(trip_id: str) -> str:
    time.sleep(0.6)
    return "2 pages"


def insure(trip_id: str) -> str:
    time.sleep(0.3)
    return "policy 81"


def release(order_id: str) -> str:
    return f"released {order_id}"


def ship(order_id: str) -> str:
    time.sleep(0.1)
    return f"{order_id} is on its way"


def call_carrier(order_id: str) -> str:
    raise ActivityFailure("the carrier's line is busy", error_type="CarrierBusy")


def refuse(text: str) -> str:
    raise ActivityFailure(text, error_type=text, non_retryable=True)


CODE: tuple[Callable[..., Any], ...] = (
    reserve,
    check_address,
    charge,
    book_flight,
    book_hotel,
    book_car,
    print_tickets,
    insure,
    release,
    ship,
    call_carrier,
    refuse,
)
