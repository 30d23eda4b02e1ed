#include "agent/job/session_stores.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

namespace muster::agent::session_stores_test {
namespace {

class SessionStoresTest : public ::testing::Test {
 protected:
  static v1::Prepare prepare_at(const std::string& address) {
    v1::Prepare prepare;
    prepare.set_master_address(address);
    return prepare;
  }
  static bool can_bind(int port) {
    const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  base::Loop loop_;
  SessionStores stores_{loop_,
                        {},
                        {.ask_launcher = [](const v1::OwnerQuestion&) {},
                         .on_problem = [](const base::Status&) {},
                         .on_notice = [](const std::string&) {}}};
};

TEST_F(SessionStoresTest, AnswersWithTheRouteAndTheSecret) {
  v1::Prepare prepare = prepare_at("127.0.0.1");
  prepare.set_session_secret(std::string(32, 's'));
  const v1::Prepared answer = stores_.prepare(prepare);
  EXPECT_EQ(answer.error(), "");
  EXPECT_EQ(answer.interface(), "lo");
  EXPECT_EQ(answer.session_secret(), std::string(32, 's'));
  EXPECT_EQ(stores_.secret(), std::string(32, 's'));
  EXPECT_EQ(answer.master_port(), 0);
  EXPECT_EQ(answer.held_ports_size(), 0);
  EXPECT_EQ(answer.owner_port(), 0U) << "a job of one host has no peers";
}

TEST_F(SessionStoresTest, SaysWhyRankZerosHostCannotBeReached) {
  const v1::Prepared answer = stores_.prepare(prepare_at("no address"));
  EXPECT_TRUE(answer.error().starts_with("cannot reach rank 0's host at no address (")) << answer.error();
  EXPECT_TRUE(answer.error().ends_with("): check the network between the hosts")) << answer.error();
}

TEST_F(SessionStoresTest, ReservesPortsAndReleasesTheMastersOne) {
  v1::Prepare prepare = prepare_at("127.0.0.1");
  prepare.set_hold_master_port(true);
  prepare.set_hold_ports(2);
  const v1::Prepared answer = stores_.prepare(prepare);
  ASSERT_EQ(answer.error(), "");
  ASSERT_EQ(answer.held_ports_size(), 2);
  const std::set<int> ports{answer.master_port(), answer.held_ports(0), answer.held_ports(1)};
  EXPECT_EQ(ports.size(), 3U);
  EXPECT_FALSE(ports.contains(0));
  stores_.release_master_port();
  EXPECT_TRUE(can_bind(answer.master_port()));
}

TEST_F(SessionStoresTest, HasKeysWhenItServesRanks) {
  v1::Prepare prepare = prepare_at("127.0.0.1");
  prepare.set_serve_horovod(true);
  ASSERT_EQ(stores_.prepare(prepare).error(), "");
  const v1::Launch launch;
  stores_.set_peers(launch);
  ASSERT_TRUE(stores_.serve_ranks(launch).ok());
  EXPECT_NE(stores_.keys(), nullptr);
  EXPECT_FALSE(stores_.variables().empty());
}

TEST_F(SessionStoresTest, EachGenerationBeginsWithoutKeys) {
  v1::Prepare prepare = prepare_at("127.0.0.1");
  prepare.set_serve_horovod(true);
  ASSERT_EQ(stores_.prepare(prepare).error(), "");
  v1::Launch launch;
  launch.add_live_members();
  ASSERT_TRUE(stores_.serve_ranks(launch).ok());
  ASSERT_NE(stores_.live(), nullptr);
  EXPECT_EQ(stores_.keys(), stores_.live());
  const auto has_key = [&] {
    bool has = false;
    stores_.keys()->get("global", "0", [&](const auto& value) { has = value.ok() && *value != nullptr; });
    return has;
  };
  stores_.keys()->put("global", "0", rendezvous::make_horovod_value("x"), [](const base::Status&) {});
  EXPECT_TRUE(has_key());

  v1::BeginGeneration begin;
  begin.set_generation(1);
  begin.add_members();
  EXPECT_EQ(stores_.begin_generation(begin).code(), base::Code::kFailedPrecondition) << "it was not prepared";
  v1::PrepareGeneration order;
  order.set_generation(1);
  for (const char* name : {"n1", "n2"}) order.add_horovod_hosts()->set_name(name);
  const v1::GenerationPrepared prepared = stores_.prepare_generation(order);
  EXPECT_EQ(prepared.error(), "");
  EXPECT_NE(prepared.horovod_port(), 0);
  EXPECT_TRUE(has_key()) << "until the generation begins";
  ASSERT_TRUE(stores_.begin_generation(begin).ok());
  EXPECT_FALSE(has_key());
}

TEST_F(SessionStoresTest, AHostMayFollowAnotherOnesStoreInTheNextGeneration) {
  v1::Prepare prepare = prepare_at("127.0.0.1");
  prepare.set_serve_horovod(true);
  ASSERT_EQ(stores_.prepare(prepare).error(), "");
  v1::Launch launch;
  launch.add_live_members();
  ASSERT_TRUE(stores_.serve_ranks(launch).ok());
  v1::BeginGeneration begin;
  begin.set_generation(1);
  begin.set_horovod_address("not an address");
  EXPECT_FALSE(stores_.begin_generation(begin).ok());
  begin.set_horovod_address("127.0.0.1");
  begin.set_horovod_port(1);
  EXPECT_TRUE(stores_.begin_generation(begin).ok());
}

TEST_F(SessionStoresTest, RanksThatJoinAreHeldUntilTheirGenerationBegins) {
  ASSERT_EQ(stores_.prepare(prepare_at("127.0.0.1")).error(), "");
  v1::Launch launch;
  launch.add_live_members();
  launch.set_joins(true);
  ASSERT_TRUE(stores_.serve_ranks(launch).ok()) << "it needs no store yet";
  ASSERT_NE(stores_.live(), nullptr);
  bool is_put = false;
  stores_.keys()->put("global", "0", rendezvous::make_horovod_value("x"),
                      [&](const base::Status& status) { is_put = status.ok(); });
  EXPECT_FALSE(is_put);
  v1::PrepareGeneration order;
  order.set_generation(1);
  order.add_horovod_hosts()->set_name("n1");
  ASSERT_EQ(stores_.prepare_generation(order).error(), "");
  v1::BeginGeneration begin;
  begin.set_generation(1);
  begin.add_members();
  ASSERT_TRUE(stores_.begin_generation(begin).ok());
  EXPECT_TRUE(is_put);
}

TEST_F(SessionStoresTest, AFixedJobHasOneGeneration) {
  v1::Prepare prepare = prepare_at("127.0.0.1");
  prepare.set_serve_horovod(true);
  ASSERT_EQ(stores_.prepare(prepare).error(), "");
  ASSERT_TRUE(stores_.serve_ranks({}).ok());
  EXPECT_EQ(stores_.live(), nullptr);
  EXPECT_NE(stores_.prepare_generation({}).error(), "");
  EXPECT_FALSE(stores_.begin_generation({}).ok());
}

}  // namespace
}  // namespace muster::agent::session_stores_test
