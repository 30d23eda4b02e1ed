// Ranks of some hosts, played by the test over real sockets, with one store of keys for all hosts.
#include "agent/pmi/pmi_server.h"

#include <sys/socket.h>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/horovod_store.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::agent::pmi_server_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A rank's end: what it is sent is collected while the loop runs.
class FakeRank {
 public:
  FakeRank(base::Loop& loop, base::UniqueFd socket) : socket_(std::move(socket)) {
    (void)base::set_nonblocking(socket_.get(), true);
    readable_ = loop.on_readable(socket_.get(), [this] {
      char bytes[4096];
      const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (count > 0) received.append(bytes, static_cast<std::size_t>(count));
      if (count == 0) close();
    });
  }
  void say(std::string_view lines) {
    ASSERT_EQ(::send(socket_.get(), lines.data(), lines.size(), MSG_NOSIGNAL), static_cast<ssize_t>(lines.size()));
  }
  void close() {
    readable_.cancel();
    is_closed = true;
    socket_.reset();
  }

  std::string received;
  bool is_closed = false;

 private:
  base::UniqueFd socket_;
  base::Timer readable_;
};

class PmiServerTest : public ::testing::Test {
 protected:
  void start(std::vector<std::vector<int>> hosts) {
    int size = 0;
    for (const auto& ranks : hosts) size += static_cast<int>(ranks.size());
    ranks_.resize(static_cast<std::size_t>(size));
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      const PmiWorld world{
          .name = "muster-a-0", .size = size, .host = static_cast<int>(host), .hosts = hosts, .programs = programs_};
      servers_.push_back(std::make_unique<PmiServer>(
          loop_, keys_, [world] { return world; },
          PmiEvents{.connected = [this](int rank) { told_.push_back("init " + std::to_string(rank)); },
                    .finalized = [this](int rank) { told_.push_back("finalize " + std::to_string(rank)); },
                    .aborted =
                        [this](int rank, int code) {
                          told_.push_back("abort " + std::to_string(rank) + " " + std::to_string(code));
                        },
                    .spawn_refused = [this](int rank) { told_.push_back("spawn " + std::to_string(rank)); },
                    .on_problem = [this](const base::Status& why) { problems_.push_back(why.message()); }}));
      for (const int rank : hosts[host]) {
        auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
        ASSERT_TRUE(pair.ok());
        servers_.back()->add(rank, std::move(pair->first));
        ranks_[static_cast<std::size_t>(rank)] = std::make_unique<FakeRank>(loop_, std::move(pair->second));
      }
    }
  }
  FakeRank& rank(int number) { return *ranks_[static_cast<std::size_t>(number)]; }
  // The answer to one question: one line.
  std::string ask(int number, std::string_view line) {
    FakeRank& asker = rank(number);
    asker.received.clear();
    asker.say(std::string(line) + "\n");
    EXPECT_TRUE(rendezvous::run_until(loop_, [&] { return asker.received.ends_with('\n') || asker.is_closed; }))
        << line;
    return asker.received;
  }
  void enter_barrier(int number) {
    rank(number).received.clear();
    rank(number).say("cmd=barrier_in\n");
  }
  bool are_out(std::initializer_list<int> numbers) {
    return rendezvous::run_until(loop_, [&] {
      return std::ranges::all_of(numbers, [&](int each) { return rank(each).received == "cmd=barrier_out rc=0\n"; });
    });
  }

  base::Loop loop_;
  rendezvous::HorovodStore store_{{}};
  rendezvous::HorovodStoreKeys keys_{store_};
  std::vector<std::unique_ptr<PmiServer>> servers_;  // by host
  std::vector<std::unique_ptr<FakeRank>> ranks_;
  std::vector<int> programs_;
  std::vector<std::string> told_;
  std::vector<std::string> problems_;
};

TEST_F(PmiServerTest, KnowsWhoWaitsInTheBarrier) {
  start({{0, 1}});
  EXPECT_FALSE(servers_[0]->waits_since(0).has_value());
  const auto before = base::monotonic_now();
  enter_barrier(0);
  ASSERT_TRUE(rendezvous::run_until(loop_, [&] { return servers_[0]->waits_since(0).has_value(); }));
  EXPECT_GE(*servers_[0]->waits_since(0), before);
  EXPECT_FALSE(servers_[0]->waits_since(1).has_value());
  EXPECT_FALSE(servers_[0]->waits_since(7).has_value());
  enter_barrier(1);
  ASSERT_TRUE(are_out({0, 1}));
  EXPECT_FALSE(servers_[0]->waits_since(0).has_value());
}

TEST_F(PmiServerTest, AnswersAsMpichsClientExpects) {
  start({{0, 1}});
  EXPECT_EQ(ask(0, "cmd=init pmi_version=1 pmi_subversion=1"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  EXPECT_EQ(ask(0, "cmd=get_maxes"), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0\n");
  EXPECT_EQ(ask(0, "cmd=get_appnum"), "cmd=appnum appnum=0 rc=0\n");
  EXPECT_EQ(ask(0, "cmd=get_universe_size"), "cmd=universe_size size=2 rc=0\n");
  EXPECT_EQ(ask(0, "cmd=get_my_kvsname"), "cmd=my_kvsname kvsname=muster-a-0 rc=0\n");
  EXPECT_EQ(ask(0, "cmd=get kvsname=muster-a-0 key=PMI_process_mapping"),
            "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n");
  EXPECT_EQ(ask(0, "cmd=get kvsname=muster-a-0 key=x"), "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  EXPECT_EQ(ask(0, "cmd=put kvsname=muster-a-0 key=x value=a b"), "cmd=put_result rc=0 msg=success\n");
  EXPECT_EQ(ask(1, "cmd=get kvsname=muster-a-0 key=x"), "cmd=get_result rc=0 msg=success value=a b\n");
  EXPECT_EQ(ask(0, "cmd=finalize"), "cmd=finalize_ack rc=0\n");
  EXPECT_THAT(told_, ElementsAre("init 0", "finalize 0"));
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(PmiServerTest, ARankIsOfAProgramOfTheJob) {
  programs_ = {1, 2, 1};
  start({{0, 2}, {1, 3}});
  EXPECT_EQ(ask(0, "cmd=get_appnum"), "cmd=appnum appnum=0 rc=0\n");
  EXPECT_EQ(ask(1, "cmd=get_appnum"), "cmd=appnum appnum=1 rc=0\n");
  EXPECT_EQ(ask(2, "cmd=get_appnum"), "cmd=appnum appnum=1 rc=0\n");
  EXPECT_EQ(ask(3, "cmd=get_appnum"), "cmd=appnum appnum=2 rc=0\n");
}

TEST_F(PmiServerTest, RefusesWhatItDoesNotServe) {
  start({{0}});
  EXPECT_EQ(ask(0, "cmd=init pmi_version=2 pmi_subversion=0"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
  EXPECT_EQ(ask(0, "mcmd=spawn\nnprocs=1\nendcmd"), "cmd=spawn_result rc=-1 msg=not_supported_by_muster\n");
  EXPECT_THAT(told_, ElementsAre("spawn 0"));
  EXPECT_EQ(ask(0, "cmd=put key=" + std::string(65, 'k') + " value=v"), "cmd=put_result rc=-1 msg=not_stored\n");
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("65 bytes")));
}

TEST_F(PmiServerTest, NamesOfOneHostAreFoundOnAnother) {
  start({{0}, {1}});
  const std::string port = "tag#0$description#n1$port#4711$";
  EXPECT_EQ(ask(1, "cmd=lookup_name service=a"), "cmd=lookup_result rc=-1 msg=not_published\n");
  EXPECT_EQ(ask(0, "cmd=publish_name service=a port=" + port), "cmd=publish_result rc=0 msg=success\n");
  EXPECT_EQ(ask(1, "cmd=publish_name service=a port=b"), "cmd=publish_result rc=-1 msg=published_already\n");
  EXPECT_EQ(ask(1, "cmd=lookup_name service=a"), "cmd=lookup_result rc=0 msg=success port=" + port + "\n");
  EXPECT_EQ(ask(0, "cmd=unpublish_name service=a"), "cmd=unpublish_result rc=0 msg=success\n");
  EXPECT_EQ(ask(1, "cmd=lookup_name service=a"), "cmd=lookup_result rc=-1 msg=not_published\n");
  EXPECT_EQ(ask(0, "cmd=unpublish_name service=a"), "cmd=unpublish_result rc=-1 msg=not_published\n");
  EXPECT_EQ(ask(0, "cmd=publish_name service=a"), "cmd=publish_result rc=-1 msg=no_name_or_port\n");
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(PmiServerTest, ABarrierWaitsForAllRanksOfAllHostsAndBringsTheirValues) {
  start({{0, 1}, {2, 3}});
  ask(0, "cmd=put kvsname=k key=a value=from 0");
  ask(1, "cmd=put kvsname=k key=b value=from 1");
  ask(3, "cmd=put kvsname=k key=c value=from 3");
  EXPECT_THAT(ask(2, "cmd=get kvsname=k key=a"), HasSubstr("key_not_found"));
  for (const int each : {2, 0, 3}) enter_barrier(each);
  // Whoever is not waited for has its answer while the barrier holds.
  EXPECT_THAT(ask(1, "cmd=get_appnum"), HasSubstr("appnum=0"));
  EXPECT_EQ(rank(0).received + rank(2).received + rank(3).received, "");
  enter_barrier(1);
  ASSERT_TRUE(are_out({0, 1, 2, 3}));
  for (const int each : {0, 1, 2, 3}) {
    EXPECT_THAT(ask(each, "cmd=get kvsname=k key=a"), HasSubstr("value=from 0\n")) << each;
    EXPECT_THAT(ask(each, "cmd=get kvsname=k key=b"), HasSubstr("value=from 1\n")) << each;
    EXPECT_THAT(ask(each, "cmd=get kvsname=k key=c"), HasSubstr("value=from 3\n")) << each;
  }
  for (int round = 0; round < 3; ++round) {
    for (const int each : {3, 2, 1, 0}) enter_barrier(each);
    ASSERT_TRUE(are_out({0, 1, 2, 3})) << round;
  }
  EXPECT_EQ(store_.size(), 2u) << "only the last barrier is kept";
}

// As MPICH in MPI_Finalize, which this process does not look like.
TEST_F(PmiServerTest, NobodyElseIsLetOutOfABarrierThatLasts) {
  start({{0, 1}});
  for (int round = 0; round < 3; ++round) {
    for (const int each : {0, 1}) enter_barrier(each);
    ASSERT_TRUE(are_out({0, 1}));
  }
  enter_barrier(0);
  rendezvous::run_for(loop_, std::chrono::milliseconds(400));
  EXPECT_EQ(rank(0).received, "");
  enter_barrier(1);
  ASSERT_TRUE(are_out({0, 1}));
}

TEST_F(PmiServerTest, ADeadRankHoldsTheBarrierAndNobodyIsLetOut) {
  start({{0, 1}});
  enter_barrier(0);
  servers_[0]->ended(1);
  EXPECT_THAT(ask(0, "cmd=get_appnum"), HasSubstr("appnum")) << "and nothing else";
}

TEST_F(PmiServerTest, WhatARankSaidBeforeItsEndIsHeard) {
  start({{0, 1}});
  rank(0).say("cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n");
  rank(0).close();
  servers_[0]->ended(0);  // before the loop has had a turn
  EXPECT_THAT(told_, ElementsAre("init 0", "finalize 0"));
  rank(1).say("cmd=abort exitcode=256\n");
  servers_[0]->ended(1);
  EXPECT_EQ(told_.back(), "abort 1 256");
}

TEST_F(PmiServerTest, AbortCodesAreKept) {
  start({{0, 1, 2}});
  rank(0).say("cmd=abort exitcode=-1\n");
  rank(1).say("cmd=abort exitcode=13 error_msg=a b\n");
  rank(2).say("cmd=abort\n");
  ASSERT_TRUE(rendezvous::run_until(loop_, [&] { return told_.size() == 3; }));
  std::ranges::sort(told_);
  EXPECT_THAT(told_, ElementsAre("abort 0 -1", "abort 1 13", "abort 2 1"));
}

TEST_F(PmiServerTest, WhoBreaksTheProtocolLosesItsSocketAlone) {
  start({{0, 1, 2}});
  rank(0).say("hello\n");
  rank(1).say("cmd=reboot\n");
  rank(2).say("cmd=barrier_in\ncmd=barrier_in\n");
  ASSERT_TRUE(rendezvous::run_until(
      loop_, [&] { return rank(0).is_closed && rank(1).is_closed && rank(2).is_closed && problems_.size() == 3; }));
  std::ranges::sort(problems_);
  EXPECT_THAT(problems_, ElementsAre("PMI of rank 0: 'hello' is not a PMI-1 command",
                                     "PMI of rank 1: 'reboot' is not a PMI-1 command that Muster knows",
                                     "PMI of rank 2: it entered a barrier a second time"));
}

TEST_F(PmiServerTest, WhoAsksWithoutEndAndReadsNothingIsClosed) {
  start({{0, 1}});
  auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
  ASSERT_TRUE(pair.ok());
  servers_[0]->add(1, std::move(pair->first));
  std::string many;
  for (int i = 0; i < 64; ++i) many += "cmd=get_maxes\n";
  ASSERT_TRUE(rendezvous::run_until(loop_, [&] {
    const ssize_t sent = ::send(pair->second.get(), many.data(), many.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 && errno == EPIPE;
  }));
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("it sends requests without reading the answers")));
}

}  // namespace
}  // namespace muster::agent::pmi_server_test
