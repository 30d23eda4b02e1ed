#include "launcherd/agents/link_keys.h"

#include <gtest/gtest.h>

namespace muster::launcherd::link_keys_test {
namespace {

constexpr std::chrono::hours kDay{24};

class LinkKeysTest : public ::testing::Test {
 protected:
  LinkKeysTest() : keys_(LinkKeys::create("abcdefgh").value()) {}
  // The time `days` from now.
  static base::WallTime in(int days) { return std::chrono::system_clock::now() + kDay * days; }
  LinkKeys keys_;
};

TEST_F(LinkKeysTest, OffersAndChangesInTime) {
  EXPECT_FALSE(keys_.is_offer_due(in(0)));
  EXPECT_FALSE(keys_.is_offer_due(in(19)));
  EXPECT_TRUE(keys_.is_offer_due(in(21)));
  EXPECT_FALSE(keys_.is_change_due(in(29)));  // there is no successor yet
  EXPECT_FALSE(keys_.is_over(in(29)));
  EXPECT_TRUE(keys_.is_over(in(31)));
  ASSERT_TRUE(keys_.offer().ok());
  EXPECT_FALSE(keys_.is_offer_due(in(21)));
  EXPECT_FALSE(keys_.is_change_due(in(21)));
  EXPECT_TRUE(keys_.is_change_due(in(26)));
}

TEST_F(LinkKeysTest, ReplacesAnAuthorityByItsSuccessor) {
  const std::string old = keys_.trusted_pem();
  const std::string old_own = keys_.own().cert_pem;
  const std::string old_agents = keys_.agents().cert_pem;
  ASSERT_TRUE(keys_.offer().ok());
  EXPECT_TRUE(keys_.trusted_pem().starts_with(old) && keys_.trusted_pem().size() > old.size());
  EXPECT_EQ(keys_.own().cert_pem, old_own);  // agents without the next authority trust only this one
  EXPECT_NE(keys_.agents().cert_pem, old_agents);
  const std::string both = keys_.trusted_pem();
  const std::string agents = keys_.agents().cert_pem;
  ASSERT_TRUE(keys_.change().ok());
  EXPECT_FALSE(keys_.is_offering());
  EXPECT_EQ(old + keys_.trusted_pem(), both);
  EXPECT_NE(keys_.own().cert_pem, old_own);
  EXPECT_EQ(keys_.agents().cert_pem, agents);
}

TEST_F(LinkKeysTest, StoresEachState) {
  const auto again = [](const LinkKeys& keys) {
    v1::PoolState state;
    state.set_id("abcdefgh");
    keys.store(state);
    return LinkKeys::load(state).value();
  };
  const auto expect_same = [&](const LinkKeys& keys) {
    const LinkKeys loaded = again(keys);
    EXPECT_EQ(loaded.trusted_pem(), keys.trusted_pem());
    EXPECT_EQ(loaded.own().key_pem, keys.own().key_pem);
    EXPECT_EQ(loaded.agents().key_pem, keys.agents().key_pem);
    EXPECT_EQ(loaded.is_offering(), keys.is_offering());
  };
  expect_same(keys_);
  ASSERT_TRUE(keys_.offer().ok());
  expect_same(keys_);
  LinkKeys loaded = again(keys_);
  ASSERT_TRUE(loaded.change().ok());
  expect_same(loaded);
  v1::PoolState junk;
  junk.set_ca_pem("junk");
  EXPECT_EQ(LinkKeys::load(junk).status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::launcherd::link_keys_test
