// Uses the installed client as another program would. No shard listens: opening must say so in
// time.
#include <tautline/client.hpp>
#include <tautline/common/net/zmq/zmq_endpoint.hpp>

#include <iostream>

int main() {
  taut::ZmqContext context{taut::Security::insecure()};
  taut::ClientOptions options;
  options.job = taut::JobId(1);
  options.shards = {{taut::ShardId(0), "127.0.0.1:1"}};
  taut::Client client(context.make_endpoint(), options);
  taut::TableSpec table;
  table.name = "weights";
  table.shape = {10};
  const auto opened = client.open({table}, taut::Duration(300'000));
  if (opened) return 1;
  std::cout << opened.error().message << "\n";
  return opened.error().code == taut::ErrorCode::kTimeout ? 0 : 1;
}
