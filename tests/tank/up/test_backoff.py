from __future__ import annotations

from ullage.tank.up.backoff import delay_s


def test_each_death_of_the_last_minute_doubles_the_wait() -> None:
    assert [delay_s([100.0] * deaths, 100.0) for deaths in (1, 2, 3, 7, 10)] == [0.5, 1.0, 2.0, 30.0, 30.0]


def test_what_lies_longer_back_is_forgotten() -> None:
    assert delay_s([0.0, 1.0, 2.0, 100.0], 100.0) == 0.5


def test_one_that_dies_at_once_is_started_seven_times_in_a_minute() -> None:
    now, deaths = 0.0, [0.0]
    while now < 60:
        now += delay_s(deaths, now)
        deaths.append(now)
    assert len(deaths) - 1 == 7
