#include "rendezvous/horovod_loopback.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/net.h"
#include "rendezvous/horovod_store.h"

namespace muster::rendezvous::horovod_loopback_test {
namespace {

std::string blocks(const std::string& address, int count) {
  const base::SockAddr to = base::make_sockaddr(base::IpAddress::parse(address).value(), 4711);
  std::string value;
  for (int i = 0; i < count; ++i) {
    value.append(reinterpret_cast<const char*>(&to.storage), sizeof to.storage);
    value.append(8, static_cast<char>(i));
  }
  return value;
}

TEST(HorovodLoopback, KnowsAddressesThatOthersCannotReach) {
  EXPECT_TRUE(publishes_loopback(blocks("127.0.1.1", 1)));
  EXPECT_TRUE(publishes_loopback(blocks("127.0.0.1", 7)));
  EXPECT_TRUE(publishes_loopback(blocks("::1", 2)));
  EXPECT_FALSE(publishes_loopback(blocks("10.0.0.1", 3)));
  EXPECT_FALSE(publishes_loopback(blocks("fd00::1", 3)));
  EXPECT_FALSE(publishes_loopback(""));
  EXPECT_FALSE(publishes_loopback("n1.example"));
  EXPECT_FALSE(publishes_loopback(std::string(136, '\xff')));
  EXPECT_FALSE(publishes_loopback(blocks("127.0.1.1", 1).substr(0, 130)));
}

TEST(HorovodLoopback, TellsOnceAndPassesEverythingOn) {
  HorovodStore store(make_horovod_plan(std::vector<HorovodHost>{{"n1", 1}, {"n2", 1}}));
  HorovodStoreKeys keys(store);
  std::vector<std::string> found;
  HorovodLoopbackWatch watch(keys, [&](const std::string& scope) { found.push_back(scope); });
  const auto put = [&](const std::string& scope, const std::string& value) {
    bool is_done = false;
    watch.put(scope, "0", make_horovod_value(value), [&](const base::Status& status) { is_done = status.ok(); });
    EXPECT_TRUE(is_done);
  };
  put("global", blocks("10.0.0.1", 1));
  put("local_n1", blocks("127.0.0.1", 1));
  EXPECT_TRUE(found.empty());
  put("global_process_set_hash_1", blocks("127.0.1.1", 1));
  put("global_process_set_hash_2", blocks("127.0.1.1", 1));
  EXPECT_EQ(found, std::vector<std::string>{"global_process_set_hash_1"});
  std::string got;
  watch.get("global_process_set_hash_2", "0", [&](base::Result<HorovodValue> value) { got = **value; });
  EXPECT_EQ(got, blocks("127.0.1.1", 1));
  watch.finish("global_process_set_hash_2", "0", [](const base::Status& status) { EXPECT_TRUE(status.ok()); });
  EXPECT_EQ(store.get("global_process_set_hash_2", "0"), nullptr);
}

}  // namespace
}  // namespace muster::rendezvous::horovod_loopback_test
