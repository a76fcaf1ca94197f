/* When a server stays awake: clients played on a clock that only the test moves; and that a server does as it is told. */
#include "net_peer.h"

#include <sched.h>

#include "net/http_server_inner.h"

#define US UINT64_C(1000)

typedef struct game {
    abx__awake awake;
    uint64_t now;
    uint64_t round;   /* one round of the loop takes so long */
    unsigned awaited; /* requests that came while the loop did not sleep */
    uint64_t spent;   /* all that was spent without sleep */
} game;

static game fresh(void)
{
    game g = {.now = 1000 * US, .round = 2 * US};

    abx__awake_init(&g.awake);
    return g;
}

/* The loop looks until it may sleep, or until the next request is there. True: it is, and nobody has slept. */
static bool look(game *g, uint64_t until)
{
    bool stays = abx__awake_expects(&g->awake);

    while (stays && g->now < until) {
        g->now += g->round;
        g->spent += g->round;
        stays = abx__awake_stays(&g->awake, g->now);
    }
    return stays;
}

/* count requests of this client; the next one comes so long after an answer when the server has slept, so long when not. */
static unsigned play(game *g, const void *client, unsigned count, uint64_t asleep, uint64_t awake)
{
    unsigned before = g->awaited;

    for (unsigned i = 0; i < count; i++) {
        abx__awake_asked(&g->awake, client, abx__awake_knows(&g->awake, client) ? g->now : 0);
        g->now += 5 * US;
        abx__awake_answered(&g->awake, client);
        uint64_t answered = g->now;
        bool awaited = look(g, answered + awake);
        g->awaited += awaited;
        g->now = answered + (awaited ? awake : asleep);
    }
    return g->awaited - before;
}

static int one, other; /* clients */

static void a_client_that_gains_is_awaited(void **state)
{
    (void)state;
    game g = fresh();
    assert_int_equal(play(&g, &one, 30, 60 * US, 30 * US), 0); /* not before there is a rhythm */
    assert_true(play(&g, &one, 10000, 60 * US, 30 * US) > 9000);
}

static void a_client_that_gains_nothing_is_not(void **state)
{
    (void)state;
    game g = fresh();
    assert_true(play(&g, &one, 100000, 30 * US, 30 * US) < 1000);
    g = fresh();
    assert_true(play(&g, &one, 100000, 30 * US, 40 * US) < 1000);
}

static void each_vain_trial_is_followed_by_a_longer_nap(void **state)
{
    (void)state;
    game g = fresh();
    play(&g, &one, 100000, 30 * US, 30 * US);
    assert_true(play(&g, &one, 100000, 30 * US, 30 * US) < 100);
}

static void a_client_that_takes_its_time_is_never_awaited(void **state)
{
    (void)state;
    game g = fresh();
    play(&g, &one, 1000, 100000 * US, 50 * US); /* ten times a second */
    play(&g, &one, 10000, 250 * US, 50 * US);
    assert_int_equal(g.spent, 0);
}

static void clients_that_take_turns_are_never_awaited(void **state)
{
    (void)state;
    game g = fresh();
    for (int i = 0; i < 10000; i++)
        play(&g, i % 2 ? &one : &other, 1, 60 * US, 30 * US);
    assert_int_equal(g.spent, 0);
}

static void two_clients_at_once_are_never_awaited(void **state)
{
    (void)state;
    game g = fresh();
    for (int i = 0; i < 10000; i++, g.now += 40 * US) {
        abx__awake_asked(&g.awake, &one, 0);
        abx__awake_asked(&g.awake, &other, 0);
        abx__awake_answered(&g.awake, &one);
        abx__awake_answered(&g.awake, &other);
        assert_false(abx__awake_expects(&g.awake));
    }
}

static void a_client_that_stops_is_awaited_for_a_moment(void **state)
{
    (void)state;
    game g = fresh();
    play(&g, &one, 10000, 60 * US, 30 * US);
    uint64_t spent = g.spent;
    abx__awake_asked(&g.awake, &one, g.now);
    abx__awake_answered(&g.awake, &one);
    assert_false(look(&g, g.now + 1000000 * US));
    assert_true(g.spent - spent <= 110 * US);
    assert_false(abx__awake_expects(&g.awake)); /* and not again */
    assert_false(abx__awake_stays(&g.awake, g.now + 1));
}

static void a_client_that_pauses_often_is_given_up(void **state)
{
    (void)state;
    game g = fresh();
    play(&g, &one, 10000, 60 * US, 30 * US);
    uint64_t spent = g.spent;
    play(&g, &one, 1000, 100000 * US, 100000 * US);
    assert_true(g.spent - spent <= 6 * 110 * US);
}

static void a_processor_that_others_want_is_left_to_them(void **state)
{
    (void)state;
    game g = fresh();
    play(&g, &one, 10000, 60 * US, 30 * US);
    g.round = 3000 * US;
    unsigned before = g.awaited;
    for (int i = 0; i < 10000; i++)
        play(&g, &one, 1, 60 * US, 3000 * US);
    assert_true(g.awaited - before < 100);
    assert_true(g.spent < 500000 * US + 100 * g.round);
}

static void who_gains_later_is_awaited_then(void **state)
{
    (void)state;
    game g = fresh();
    play(&g, &one, 20000, 30 * US, 30 * US);
    play(&g, &one, 100000, 60 * US, 30 * US);
    assert_true(play(&g, &one, 100000, 60 * US, 30 * US) > 50000);
    play(&g, &one, 5000, 30 * US, 30 * US);
    assert_true(play(&g, &one, 100000, 30 * US, 30 * US) < 3000);
}

/* --- the server --------------------------------------------------------------------------------------- */
static void stop_loop(uv_timer_t *t)
{
    uv_stop(t->loop);
}

static void a_server_sleeps_when_the_wait_is_over(void **state)
{
    (void)state;
    app a;
    uv_timer_t t;

    app_open(&a, &(abx_http_server_options){.awake = true});
    a.server->options.awake = true; /* also on one processor */
    peer p = connect_pair(&a);
    say(&p, GET("/hello"));
    expect(&p, "hello");
    assert_non_null(a.server->awake.who);
    a.server->awake.awake = a.server->awake.waits = true;
    a.server->awake.slept = 60 * US;
    uv_timer_init(&a.loop, &t);
    uv_timer_start(&t, stop_loop, 20, 0);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    assert_true(a.server->awake.began > 0); /* it was asked, */
    assert_false(abx__awake_expects(&a.server->awake));
    assert_false(uv_is_active((uv_handle_t *)&a.server->turn)); /* and the loop sleeps again */
    uv_close((uv_handle_t *)&t, NULL);
    forget(&p);
    say(&p, GET("/hello"));
    expect(&p, "hello");
    peer_close(&p);
    app_close(&a);
}

static void a_server_that_closes_does_not_wait(void **state)
{
    (void)state;
    app a;

    app_open(&a, &(abx_http_server_options){.awake = true});
    a.server->options.awake = true;
    peer p = connect_pair(&a);
    say(&p, GET("/hello"));
    expect(&p, "hello");
    a.server->awake.awake = a.server->awake.waits = true;
    a.server->awake.slept = UINT64_MAX / 4;
    app_close(&a);
    peer_close(&p);
}

static void one_processor_is_the_client_s(void **state)
{
    (void)state;
    app a;
    cpu_set_t all, one_of_them;

    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one_of_them);
    for (int i = 0; CPU_COUNT(&one_of_them) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one_of_them);
    assert_int_equal(sched_setaffinity(0, sizeof one_of_them, &one_of_them), 0);
    app_open(&a, &(abx_http_server_options){.awake = true});
    assert_false(a.server->options.awake);
    app_close(&a);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_gains_is_awaited),
        cmocka_unit_test(a_client_that_gains_nothing_is_not),
        cmocka_unit_test(each_vain_trial_is_followed_by_a_longer_nap),
        cmocka_unit_test(a_client_that_takes_its_time_is_never_awaited),
        cmocka_unit_test(clients_that_take_turns_are_never_awaited),
        cmocka_unit_test(two_clients_at_once_are_never_awaited),
        cmocka_unit_test(a_client_that_stops_is_awaited_for_a_moment),
        cmocka_unit_test(a_client_that_pauses_often_is_given_up),
        cmocka_unit_test(a_processor_that_others_want_is_left_to_them),
        cmocka_unit_test(who_gains_later_is_awaited_then),
        cmocka_unit_test(a_server_sleeps_when_the_wait_is_over),
        cmocka_unit_test(a_server_that_closes_does_not_wait),
        cmocka_unit_test(one_processor_is_the_client_s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
