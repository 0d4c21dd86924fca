/* A member in C: pulls its table towards 3, clock by clock.
 * usage: member COORDINATOR JOB CLOCKS */
#include <stdio.h>
#include <stdlib.h>
#include <tautline/tautline.h>

#define COUNT 10

static void check(tautline_code code) {
  if (code == TAUTLINE_OK) return;
  fprintf(stderr, "member: %s\n", tautline_error());
  exit((int)code);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: member COORDINATOR JOB CLOCKS\n");
    return 2;
  }
  float values[COUNT] = {0};
  const int64_t shape[] = {COUNT};
  const long clocks = atol(argv[3]);
  tautline_member* member = NULL;
  tautline_place place;
  uint32_t table = 0;

  check(tautline_join(argv[1], NULL, strtoull(argv[2], NULL, 10), NULL, 2, &member));
  check(tautline_await_place(member, &place));
  check(tautline_add_table(member, "w", shape, 1, TAUTLINE_FLOAT32, TAUTLINE_TRAINED, values,
                           &table));
  check(tautline_open(member));
  for (int64_t clock = place.start; clock <= clocks; ++clock) {
    void* memory = NULL;
    check(tautline_gradient(member, table, TAUTLINE_FLOAT32, &memory));
    float* const gradient = memory;
    float loss = 0;
    for (int i = 0; i < COUNT; ++i) {
      gradient[i] = 2 * (values[i] - 3);
      loss += (values[i] - 3) * (values[i] - 3);
    }
    check(tautline_push(member, table, TAUTLINE_FLOAT32, gradient, COUNT));
    check(tautline_pull(member, table, NULL));
    const tautline_report report = {loss, 1};
    check(tautline_end_clock(member, &report, NULL));
  }
  check(tautline_finish(member));
  tautline_close(member);
  printf("%.4f\n", values[0]);
  return 0;
}
