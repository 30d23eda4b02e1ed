// The agent's side with the real helper and this machine's libpmix. Ranks are played as far as their first bytes;
// tests/e2e/test_39_openmpi.py has real ones.
#include "agent/pmix/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/ids.h"
#include "base/strings.h"
#include "rendezvous/horovod_store.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::agent::pmix::service_test {
namespace {

using namespace muster::rendezvous;
using ::testing::HasSubstr;

class PmixServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = std::filesystem::temp_directory_path() / (base::JobId::random().str() + "-0");
    shared_memory_ = "/dev/shm/muster-" + session_.filename().string();
    std::filesystem::create_directory(session_);
    open();
  }

  void open() {
    ServiceJob job;
    job.nspace = "muster-test";
    job.session_dir = session_;
    job.placement = {{{"h0", {0, 1}}}};
    auto opened = Service::open(
        loop_, keys_, job,
        {.on_connected = [](int) {},
         .on_finalized = [](int) {},
         .on_aborted = [](int, int) {},
         .on_spawn = [](const SpawnWanted&) {},
         .on_world_added = [this](int first, const std::string& error) { added_.emplace_back(first, error); },
         .on_text = [](int, const std::string&) {},
         .on_problem = [this](const std::string& text) { problems_.push_back(text); },
         .on_lost = [this](const std::vector<int>& ranks, const std::string&) { losses_.push_back(ranks); }});
    ASSERT_TRUE(opened.ok()) << opened.status();
    service_ = std::move(*opened);
    service_->set_variables(1, rank_);
  }

  void TearDown() override {
    service_.reset();
    std::filesystem::remove_all(session_);
    std::filesystem::remove_all(shared_memory_);
  }

  std::uint16_t port() const {
    const std::string uri(rank_.get("PMIX_SERVER_URI41").value_or(""));
    return static_cast<std::uint16_t>(base::parse_decimal(uri.substr(uri.rfind(':') + 1), 65535).value_or(0));
  }

  std::filesystem::path session_;
  std::filesystem::path shared_memory_;
  base::Loop loop_;
  HorovodStore store_{HorovodPlan{}};
  HorovodStoreKeys keys_{store_};
  base::Environment rank_;
  std::vector<std::string> problems_;
  std::vector<std::vector<int>> losses_;
  std::vector<std::pair<int, std::string>> added_;
  std::unique_ptr<Service> service_;
};

TEST_F(PmixServiceTest, RefusesAWorldOfOtherHosts) {
  service_->add_world({"muster-test-2", 2, 0, {{{"h0", {0}}, {"h1", {1}}}}});
  EXPECT_TRUE(added_.empty()) << "from within the call";
  run_for(loop_, std::chrono::milliseconds(50));
  ASSERT_EQ(added_.size(), 1u);
  EXPECT_EQ(added_[0].first, 2);
  EXPECT_NE(added_[0].second, "");
}

TEST_F(PmixServiceTest, NamesTheWorldOfASpawnedRank) {
  service_->add_world({"muster-test-2", 2, 0, {{{"h0", {0, 1}}}}});
  base::Environment spawned;
  service_->set_variables(3, spawned);
  EXPECT_EQ(spawned.get("PMIX_NAMESPACE"), "muster-test-2");
  EXPECT_EQ(spawned.get("PMIX_RANK"), "1");
  EXPECT_TRUE(spawned.get("PMIX_SERVER_URI41").value_or("").starts_with("muster-test-server.0;"));
  EXPECT_EQ(rank_.get("PMIX_NAMESPACE"), "muster-test");
}

TEST_F(PmixServiceTest, KnowsWhoIsAloneInItsWorld) {
  service_->add_world({"muster-test-2", 2, 0, {{{"h0", {0}}}}});
  EXPECT_FALSE(service_->is_alone(0));
  EXPECT_TRUE(service_->is_alone(2));
}

TEST_F(PmixServiceTest, CostsNoProcessUntilARankConnects) {
  run_for(loop_, std::chrono::milliseconds(50));
  EXPECT_EQ(service_->pid(), 0);
  EXPECT_FALSE(std::filesystem::exists(session_ / "pmix"));
  EXPECT_EQ(rank_.get("PMIX_RANK"), "1");
  EXPECT_NE(port(), 0);
}

// libpmix closes who does not speak its protocol: it has got the connection.
TEST_F(PmixServiceTest, AConnectionComesToLibpmix) {
  LoopPeer stranger(loop_, port());
  ASSERT_TRUE(stranger.send(std::string(4096, 'x')));
  ASSERT_TRUE(run_until(loop_, [&] { return stranger.is_closed(); }));
  EXPECT_GT(service_->pid(), 0);
  EXPECT_TRUE(problems_.empty()) << problems_.front();
}

TEST_F(PmixServiceTest, TheHelperEndsWithTheService) {
  const LoopPeer rank(loop_, port());
  ASSERT_TRUE(run_until(loop_, [this] { return service_->pid() != 0; }));
  const pid_t pid = service_->pid();
  service_.reset();
  EXPECT_EQ(::waitpid(pid, nullptr, 0), -1) << "it is reaped already";
}

TEST_F(PmixServiceTest, ALostHelperIsToldOnce) {
  const LoopPeer rank(loop_, port());
  ASSERT_TRUE(run_until(loop_, [this] { return service_->pid() != 0; }));
  ::kill(service_->pid(), SIGKILL);
  ASSERT_TRUE(run_until(loop_, [this] { return !problems_.empty(); }));
  run_for(loop_, std::chrono::milliseconds(20));
  EXPECT_THAT(problems_, ::testing::ElementsAre(HasSubstr("ended by signal 9")));
  EXPECT_TRUE(losses_.empty()) << "no rank had come as far as MPI_Init";
  EXPECT_EQ(service_->pid(), 0);
}

TEST_F(PmixServiceTest, ADirectoryThatOthersCanEnterIsNotTheRanks) {
  EXPECT_EQ(rank_.get("OMPI_MCA_btl_vader_backing_directory"), shared_memory_.string());
  service_.reset();
  std::filesystem::permissions(shared_memory_, std::filesystem::perms::all);
  rank_ = {};
  open();
  EXPECT_FALSE(rank_.get("OMPI_MCA_btl_vader_backing_directory"));
  EXPECT_EQ(rank_.get("OMPI_MCA_schizo"), "ompi") << "Open MPI is served all the same";
  EXPECT_TRUE(problems_.empty()) << "of interest to programs of Open MPI only";
  const LoopPeer rank(loop_, port());
  ASSERT_TRUE(run_until(loop_, [this] { return !problems_.empty(); }));
  EXPECT_THAT(problems_.front(), HasSubstr(shared_memory_.string()));
}

TEST_F(PmixServiceTest, NorIsOneOfTheSession) {
  std::filesystem::create_directory(session_ / "pmix");
  std::filesystem::permissions(session_ / "pmix", std::filesystem::perms::all);
  const LoopPeer rank(loop_, port());
  ASSERT_TRUE(run_until(loop_, [this] { return !problems_.empty(); }));
  EXPECT_THAT(problems_.front(), HasSubstr((session_ / "pmix").string()));
  EXPECT_EQ(service_->pid(), 0);
}

TEST_F(PmixServiceTest, WhatAnotherLauncherSaidIsTakenOut) {
  base::Environment environment;
  environment.set("PMIX_SERVER_URI5", "theirs");
  environment.set("OMPI_MCA_orte_local_daemon_uri", "theirs");
  environment.set("OMPI_MCA_btl", "tcp,self");
  service_->set_variables(0, environment);
  EXPECT_FALSE(environment.get("PMIX_SERVER_URI5"));
  EXPECT_FALSE(environment.get("OMPI_MCA_orte_local_daemon_uri"));
  EXPECT_EQ(environment.get("OMPI_MCA_btl"), "tcp,self");
  EXPECT_EQ(environment.get("PMIX_RANK"), "0");
}

}  // namespace
}  // namespace muster::agent::pmix::service_test
