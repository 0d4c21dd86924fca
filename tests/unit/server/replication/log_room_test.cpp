#include "server/replication/log_room.hpp"

#include "tests/support/catch.hpp"

namespace taut::server {

TEST_CASE("an update has room again once an image that holds others is kept", "[replication]") {
  LogRoom room(100);
  LogRoom::Bucket first;
  LogRoom::Bucket second;
  room.note_counted(first, 40);
  room.note_counted(second, 60);
  CHECK(room.is_short());
  CHECK_FALSE(room.has(1));
  // Of the second bucket's updates its image lacks one that waits for other members'.
  room.note_image(second, 20);
  CHECK_FALSE(room.has(1));
  CHECK(second.can_shrink());
  room.note_kept(second);
  CHECK_FALSE(second.can_shrink());
  CHECK(room.has(40));
  CHECK_FALSE(room.has(41));
  // What counts while an image is under way is in the next one.
  room.note_image(first, 0);
  room.note_counted(first, 10);
  room.note_kept(first);
  CHECK(first.can_shrink());
  CHECK(room.has(70));
  CHECK_FALSE(room.has(71));
}

TEST_CASE("an update waits for no room that images cannot make", "[replication]") {
  LogRoom room(100);
  LogRoom::Bucket bucket;
  room.note_counted(bucket, 100);
  CHECK_FALSE(room.has(1));
  // All of it waits for other members' updates, of which this may be one.
  room.note_image(bucket, 100);
  room.note_kept(bucket);
  CHECK(room.has(1));
  room.note_counted(bucket, 1);
  CHECK_FALSE(room.has(1));
}

}  // namespace taut::server
