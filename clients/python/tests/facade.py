"""The async client with the methods of the other one, so that tests are written once."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fleetpace import AsyncFleetpace, AsyncLimiter, AsyncTurn, Later

T = TypeVar("T")


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Lost:
    def __init__(self, loop: Loop, event: asyncio.Event) -> None:
        self.loop, self.event = loop, event

    def is_set(self) -> bool:
        return self.event.is_set()

    def wait(self, timeout: float) -> bool:
        async def waiting() -> bool:
            try:
                await asyncio.wait_for(self.event.wait(), timeout)
            except asyncio.TimeoutError:
                return False
            return True

        return self.loop.do(waiting())


class FacadeTurn:
    def __init__(self, loop: Loop, turn: AsyncTurn) -> None:
        self.loop, self.turn = loop, turn
        self.id, self.waited, self.lost = turn.id, turn.waited, Lost(loop, turn.lost)

    def __enter__(self) -> "FacadeTurn":
        self.loop.do(self.turn.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.do(self.turn.__aexit__())

    def settle(self, *used: int) -> None:
        self.loop.do(self.turn.settle(*used))


class FacadeLimiter:
    def __init__(self, loop: Loop, limiter: AsyncLimiter) -> None:
        self.loop, self.limiter = loop, limiter

    @contextmanager
    def turn(self, *args: Any, **options: Any) -> Iterator[FacadeTurn]:
        manager = self.limiter.turn(*args, **options)
        turn = self.loop.do(manager.__aenter__())
        try:
            yield FacadeTurn(self.loop, turn)
        except BaseException as error:
            self.loop.do(manager.__aexit__(type(error), error, error.__traceback__))
            raise
        else:
            self.loop.do(manager.__aexit__(None, None, None))

    def ask(self, *args: Any, **options: Any) -> FacadeTurn | Later:
        answer = self.loop.do(self.limiter.ask(*args, **options))
        return FacadeTurn(self.loop, answer) if isinstance(answer, AsyncTurn) else answer

    def wait(self, *args: Any, **options: Any) -> FacadeTurn:
        return FacadeTurn(self.loop, self.loop.do(self.limiter.wait(*args, **options)))

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self.loop.do(getattr(self.limiter, name)(*args, **options))


class Facade:
    def __init__(self, *args: Any, **options: Any) -> None:
        self.loop = Loop()
        self.client = AsyncFleetpace(*args, **options)

    def limiter(self, *args: Any, **options: Any) -> FacadeLimiter:
        return FacadeLimiter(self.loop, self.client.limiter(*args, **options))

    def close(self) -> None:
        self.loop.do(self.client.aclose())
        self.loop.close()

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self.loop.do(getattr(self.client, name)(*args, **options))
