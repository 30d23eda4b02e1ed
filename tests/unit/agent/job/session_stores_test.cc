#include "agent/job/session_stores.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "proto/muster/v1/store_plan.pb.h"

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
  static bool can_connect(int port) {
    const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const base::SockAddr to =
        base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), static_cast<std::uint16_t>(port));
    return ::connect(fd.get(), to.get(), to.size) == 0;
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

// Host 0 with the store, host 1 below it, and host 2 below host 1.
TEST_F(SessionStoresTest, AHostWithChildrenServesThem) {
  const auto events = [](std::vector<std::string>& problems) {
    return SessionStores::Events{.ask_launcher = [](const v1::OwnerQuestion&) {},
                                 .on_problem = [&](const base::Status& why) { problems.push_back(why.message()); },
                                 .on_notice = [](const std::string&) {}};
  };
  std::vector<std::string> problems;
  SessionStores inner(loop_, {}, events(problems));
  SessionStores leaf(loop_, {}, events(problems));
  v1::Prepare prepare = prepare_at("127.0.0.1");
  prepare.set_hold_ports(1);
  const v1::Prepared inner_port = inner.prepare(prepare);
  ASSERT_EQ(leaf.prepare(prepare_at("127.0.0.1")).error(), "");
  prepare.set_serve_horovod(true);
  for (const char* name : {"n1", "n2", "n3"}) prepare.add_horovod_hosts()->set_name(name);
  const v1::Prepared root_port = stores_.prepare(prepare);
  ASSERT_NE(root_port.horovod_port(), 0);

  v1::StorePlan plan;
  plan.set_hosts(3);
  plan.set_fanout(1);
  v1::Launch launch;
  launch.set_stores(plan.SerializeAsString());
  ASSERT_TRUE(stores_.serve_ranks(launch).ok());
  launch.set_host(2);
  launch.set_horovod_address("127.0.0.1");
  launch.set_horovod_port(inner_port.held_ports(0));
  ASSERT_TRUE(leaf.serve_ranks(launch).ok());
  launch.set_host(1);
  launch.set_horovod_port(root_port.horovod_port());
  plan.set_serves_on_held_port(true);
  launch.set_stores(plan.SerializeAsString());
  EXPECT_FALSE(can_connect(inner_port.held_ports(0))) << "it is only held";
  ASSERT_TRUE(inner.serve_ranks(launch).ok());
  EXPECT_TRUE(can_connect(inner_port.held_ports(0)));
  EXPECT_TRUE(problems.empty()) << problems.front();
  for (SessionStores* host : {&stores_, &inner, &leaf}) EXPECT_NE(host->keys()->meetings(), nullptr);
}

TEST_F(SessionStoresTest, RefusesAPlanThatItCannotFollow) {
  ASSERT_EQ(stores_.prepare(prepare_at("127.0.0.1")).error(), "");
  v1::StorePlan plan;
  plan.set_hosts(3);
  plan.set_fanout(1);
  v1::Launch launch;
  launch.set_host(3);
  launch.set_stores(plan.SerializeAsString());
  EXPECT_EQ(stores_.serve_ranks(launch).code(), base::Code::kInvalidArgument) << "the job has no host 3";
  launch.set_host(1);
  plan.set_serves_on_held_port(true);
  launch.set_stores(plan.SerializeAsString());
  EXPECT_EQ(stores_.serve_ranks(launch).code(), base::Code::kFailedPrecondition) << "it holds no port";
  launch.set_stores("\xff\xff");
  EXPECT_EQ(stores_.serve_ranks(launch).code(), base::Code::kInvalidArgument);
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
