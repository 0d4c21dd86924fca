#include "common/ssp/follower_bound.hpp"

#include "tests/support/catch.hpp"

using namespace taut;

TEST_CASE("reads go as far as the slack ahead of the follower that has confirmed least",
          "[followers]") {
  FollowerBound bound;
  CHECK(bound.limit() == Clock::never());
  CHECK_FALSE(bound.holds_back(Clock(1000)));
  bound.update(2, {{FollowerId(7), Clock(5)}, {FollowerId(8), Clock(9)}});
  CHECK(bound.limit() == Clock(7));
  CHECK_FALSE(bound.holds_back(Clock(7)));
  CHECK(bound.holds_back(Clock(8)) == FollowerId(7));

  CHECK(bound.confirm(FollowerId(7), Clock(12)) == Clock(12));
  CHECK(bound.limit() == Clock(11));
  CHECK(bound.holds_back(Clock(12)) == FollowerId(8));
  // A late copy takes nothing back.
  CHECK(bound.confirm(FollowerId(7), Clock(6)) == Clock(12));
  CHECK(bound.limit() == Clock(11));
  CHECK_FALSE(bound.confirm(FollowerId(9), Clock(50)));
}

TEST_CASE("a follower that is cut holds nothing back, and a known one keeps what it has confirmed",
          "[followers]") {
  FollowerBound bound;
  bound.update(0, {{FollowerId(7), Clock(5)}, {FollowerId(8), Clock(5)}});
  REQUIRE(bound.confirm(FollowerId(8), Clock(20)));
  bound.update(1, {{FollowerId(8), Clock(5)}, {FollowerId(9), Clock(30)}});
  CHECK(bound.limit() == Clock(21));
  bound.update(1, {});
  CHECK(bound.limit() == Clock::never());
  // It joins again with what it has then.
  bound.update(1, {{FollowerId(8), Clock(40)}});
  CHECK(bound.limit() == Clock(41));
}
