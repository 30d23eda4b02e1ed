// The launcher's part by itself, then whole broadcasts between agents of this process, over TLS on 127.0.0.1.
#include "launcherd/stage/broadcast.h"

#include <sys/stat.h>

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/stage/staging_fixture.h"

namespace muster::launcherd::broadcast_test {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMiB = 1 << 20;

class BroadcastTest : public ::testing::Test {
 protected:
  // A tree of files of these sizes, which `hosts` hosts want.
  void start(const std::vector<std::uint64_t>& sizes, int hosts, const std::set<int>& deaf = {}) {
    tree_.is_folder = true;
    for (const std::uint64_t size : sizes) {
      v1::StageEntry& entry = tree_.entries.emplace_back();
      entry.set_kind(v1::StageEntry::KIND_FILE);
      entry.set_size(size);
    }
    broadcast_.emplace(
        tree_,
        Broadcast::Events{
            .order = [this](std::size_t host, const v1::StageBroadcast& order) { orders_[host].push_back(order); },
            .hash =
                [this](int, std::uint64_t, std::size_t size, const auto& done) {
                  const std::size_t blocks = (size + Broadcast::kBlockBytes - 1) / Broadcast::kBlockBytes;
                  hashing_ = [done, blocks] { done(std::string(blocks * 32, 'h')); };
                },
            .want = [this](std::size_t host, int entry, std::uint64_t begin,
                           std::uint64_t end) { wants_.emplace_back(host, entry, begin, end); },
            .note = [this](const std::string& line) { notes_.push_back(line); },
            .fail = [this](base::Status why) { failure_ = std::move(why); }});
    for (int i = 0; i < hosts; ++i) {
      const std::size_t host = broadcast_->add_host("n" + std::to_string(i), "10.0.0." + std::to_string(i + 1));
      v1::StageBroadcastAnswer port;
      port.set_port(deaf.contains(i) ? 0 : 4000 + static_cast<unsigned>(i));
      broadcast_->began(host, port.SerializeAsString());
      for (std::size_t entry = 0; entry < sizes.size(); ++entry) broadcast_->add_want(host, static_cast<int>(entry));
    }
    broadcast_->start();
    while (hashing_) std::exchange(hashing_, nullptr)();
  }

  std::vector<std::string> sources_of(std::size_t host) {
    std::vector<std::string> names;
    for (const auto& source : orders_[host].front().sources().sources()) names.push_back(source.name());
    return names;
  }

  v1::StageAnswer report(const v1::StageReport& report) const {
    v1::StageBroadcastAnswer answer;
    *answer.mutable_report() = report;
    answer.mutable_report()->set_token(broadcast_->begin().begin().token());
    v1::StageAnswer message;
    message.set_broadcast(answer.SerializeAsString());
    return message;
  }

  StageTree tree_;
  std::optional<Broadcast> broadcast_;
  std::map<std::size_t, std::vector<v1::StageBroadcast>> orders_;
  std::function<void()> hashing_;
  std::vector<std::tuple<std::size_t, int, std::uint64_t, std::uint64_t>> wants_;
  std::vector<std::string> notes_;
  base::Status failure_ = base::ok_status();
};

TEST_F(BroadcastTest, SourcesAreParentsThenTheHostBefore) {
  start({1}, 16);
  EXPECT_THAT(sources_of(0), IsEmpty());
  EXPECT_THAT(sources_of(1), ElementsAre("n0"));
  EXPECT_THAT(sources_of(2), ElementsAre("n0", "n1"));
  EXPECT_THAT(sources_of(5), ElementsAre("n2", "n0", "n4"));
  EXPECT_THAT(sources_of(15), ElementsAre("n7", "n3", "n1", "n14"));
}

TEST_F(BroadcastTest, HostsThatServeNothingAreNoSources) {
  start({1}, 4, {1});
  EXPECT_THAT(sources_of(2), ElementsAre("n0"));
  EXPECT_THAT(sources_of(3), ElementsAre("n0", "n2"));
}

TEST_F(BroadcastTest, ListsNameEveryBlockOnceAndEnd) {
  start({0, 40 * kMiB + 1, 5}, 2);
  for (const std::size_t host : {0U, 1U}) {
    std::map<int, std::uint32_t> blocks;
    for (std::size_t i = 1; i < orders_[host].size(); ++i) {
      ASSERT_TRUE(orders_[host][i].has_lists());
      EXPECT_EQ(orders_[host][i].lists().is_last(), i + 1 == orders_[host].size());
      for (const auto& list : orders_[host][i].lists().files()) {
        EXPECT_EQ(list.first(), blocks[list.entry()]);
        blocks[list.entry()] += static_cast<std::uint32_t>(list.hashes().size() / 32);
      }
    }
    EXPECT_THAT(blocks, ElementsAre(std::pair(0, 0U), std::pair(1, 41U), std::pair(2, 1U)));
    EXPECT_GT(orders_[host].size(), 3U);  // the first lists do not wait for the last
  }
}

TEST_F(BroadcastTest, ListsWaitForAHostThatDoesNotAnswer) {
  constexpr std::size_t kLists = 100;
  start({kLists * 16 * kMiB}, 2);
  EXPECT_EQ(orders_[0].size(), Broadcast::kMostUnanswered);
  for (std::size_t i = 0; i < 4; ++i) broadcast_->answered(0);
  EXPECT_FALSE(hashing_);  // the other host has not answered
  for (std::size_t i = 0; i < 4; ++i) broadcast_->answered(1);
  while (hashing_) std::exchange(hashing_, nullptr)();
  EXPECT_EQ(orders_[0].size(), Broadcast::kMostUnanswered + 4);
}

TEST_F(BroadcastTest, AWantedBlockIsSentByTheLauncher) {
  start({2 * kMiB + 7}, 2);
  v1::StageReport wants;
  wants.add_wants()->set_block(2);
  wants.add_notes("blocks come from the launcher instead of n0: it closed\nthe connection");
  EXPECT_TRUE(broadcast_->report(1, report(wants)));
  EXPECT_THAT(wants_, ElementsAre(std::tuple(1U, 0, 2 * kMiB, 2 * kMiB + 7)));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("n1: --stage: blocks come from the launcher instead of n0: it closed\\")));
  EXPECT_TRUE(failure_.ok());
}

TEST_F(BroadcastTest, ALyingHostIsNamed) {
  start({100}, 2);
  v1::StageReport wants;
  wants.add_wants()->set_block(1);  // the file has one block
  EXPECT_TRUE(broadcast_->report(1, report(wants)));
  EXPECT_THAT(failure_.message(), HasSubstr("n1: --stage: the agent there asks for blocks"));
}

TEST_F(BroadcastTest, AHostMayNotAskForMoreThanTheBound) {
  start({100}, 1);
  v1::StageReport wants;
  for (std::size_t i = 0; i < Broadcast::kMostWants; ++i) wants.add_wants();
  EXPECT_TRUE(broadcast_->report(0, report(wants)));
  EXPECT_TRUE(failure_.ok());
  EXPECT_TRUE(broadcast_->report(0, report(wants)));
  EXPECT_FALSE(failure_.ok());
}

TEST_F(BroadcastTest, ReportsOfAnEarlierBroadcastAreIgnored) {
  start({100}, 1);
  v1::StageAnswer old = report({});
  v1::StageBroadcastAnswer answer;
  answer.mutable_report()->set_token(broadcast_->begin().begin().token() + 1);
  answer.mutable_report()->set_is_complete(true);
  old.set_broadcast(answer.SerializeAsString());
  EXPECT_FALSE(broadcast_->report(0, old));
  EXPECT_FALSE(broadcast_->is_complete());
}

TEST_F(BroadcastTest, CountsWhatHostsGotFromEachOther) {
  start({100}, 2);
  EXPECT_TRUE(broadcast_->misses_blocks(1));
  v1::StageReport done;
  done.set_done_blocks(1);
  done.set_peer_bytes(100);
  done.set_changed_files(1);
  done.set_is_complete(true);
  EXPECT_TRUE(broadcast_->report(1, report(done)));
  EXPECT_FALSE(broadcast_->misses_blocks(1));
  EXPECT_TRUE(broadcast_->is_complete(1));
  EXPECT_FALSE(broadcast_->is_complete());
  done.set_peer_bytes(0);
  EXPECT_TRUE(broadcast_->report(0, report(done)));
  EXPECT_TRUE(broadcast_->is_complete());
  EXPECT_EQ(broadcast_->peer_bytes(), 100U);
  EXPECT_EQ(broadcast_->changed_files(), 1U);
}

std::string random_text(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

class WholeBroadcastTest : public staging_test::StagingTest {
 protected:
  WholeBroadcastTest() { limits_.broadcast_bytes = kMiB; }

  std::size_t launcher_bytes() const {
    std::size_t bytes = 0;
    for (const auto& [agent, sent] : sent_) bytes += sent;
    return bytes;
  }
  void expect_everywhere(const std::vector<std::string>& disks, const std::string& path, const std::string& expected) {
    for (const std::string& disk : disks) EXPECT_TRUE(content(disk + "/in/" + path) == expected) << disk << " " << path;
  }
  // Changes the sources of this host.
  void on_sources(int agent, const std::function<void(v1::StageSources&)>& change) {
    on_order_ = [agent, change](int to, v1::StageOrder& order) {
      v1::StageBroadcast broadcast;
      if (to != agent || !order.has_broadcast() || !broadcast.ParseFromString(order.broadcast())) return true;
      if (broadcast.has_sources()) change(*broadcast.mutable_sources());
      order.set_broadcast(broadcast.SerializeAsString());
      return true;
    };
  }

  const std::vector<std::string> disks_{"d1", "d2", "d3", "d4", "d5"};
};

TEST_F(WholeBroadcastTest, TheLauncherSendsOneCopy) {
  const std::string big = random_text(5 * kMiB + 11, 1);
  put("src/big", big);
  put("src/sub/small", "small");
  put("src/empty", "");
  fs::create_symlink("big", root_ / "src/link");
  fs::permissions(root_ / "src/sub/small", fs::perms(0750));
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  expect_everywhere(disks_, "big", big);
  expect_everywhere(disks_, "sub/small", "small");
  for (const std::string& disk : disks_) {
    EXPECT_TRUE(fs::is_empty(root_ / disk / "in/empty"));
    EXPECT_EQ(fs::read_symlink(root_ / disk / "in/link"), "big");
    struct stat info {};
    struct stat source {};
    ASSERT_EQ(::stat((root_ / disk / "in/sub/small").c_str(), &info), 0);
    ASSERT_EQ(::stat((root_ / "src/sub/small").c_str(), &source), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0750U);
    EXPECT_EQ(info.st_mtim.tv_nsec, source.st_mtim.tv_nsec);
    EXPECT_FALSE(has_marks(disk));
  }
  EXPECT_EQ(launcher_bytes(), big.size() + 5);
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("3 of 3 files, 26.2 MB in all, 5.2 MB of it from here"),
                                     HasSubstr("on n1, n2, n3, n4 and 1 more"))));

  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  EXPECT_EQ(launcher_bytes(), 0U);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("3 files, all present already")));
}

TEST_F(WholeBroadcastTest, ManySmallFilesArrive) {
  for (int i = 0; i < 700; ++i) put("src/f" + std::to_string(i), random_text(3000, static_cast<unsigned>(i)));
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  for (const int i : {0, 255, 256, 699}) {
    expect_everywhere(disks_, "f" + std::to_string(i), random_text(3000, static_cast<unsigned>(i)));
  }
  EXPECT_EQ(launcher_bytes(), 700U * 3000U);
}

TEST_F(WholeBroadcastTest, OnlyChangedBlocksAreSent) {
  std::string big = random_text(6 * kMiB, 2);
  put("src/big", big);
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  big[3 * kMiB + 5] ^= 1;
  big += "more";
  put("src/big", big);
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  expect_everywhere(disks_, "big", big);
  EXPECT_EQ(launcher_bytes(), kMiB + 4);
}

TEST_F(WholeBroadcastTest, TheSameContentWithAnotherTimeIsKept) {
  put("src/big", random_text(2 * kMiB, 3));
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  struct stat before {};
  ASSERT_EQ(::stat((root_ / "d2/in/big").c_str(), &before), 0);
  fs::last_write_time(root_ / "src/big", fs::file_time_type::clock::now() - std::chrono::hours(5));
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  struct stat after {};
  ASSERT_EQ(::stat((root_ / "d2/in/big").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_NE(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
  EXPECT_EQ(launcher_bytes(), 0U);
}

TEST_F(WholeBroadcastTest, ABrokenStagingIsResumed) {
  const std::string big = random_text(20 * kMiB, 4);
  put("src/big", big);
  std::size_t sent = 0;
  on_data_ = [&](const v1::StageData& data) {
    sent += data.data().size();
    if (sent >= 8 * kMiB) loop_.stop();  // as if the launcher was killed
  };
  EXPECT_FALSE(stage(disks_, "src", "/in").ok());
  EXPECT_FALSE(fs::exists(root_ / "d1/in/big"));
  on_data_ = nullptr;
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  expect_everywhere(disks_, "big", big);
  EXPECT_LE(launcher_bytes(), 14 * kMiB);
  for (const std::string& disk : disks_) EXPECT_FALSE(has_marks(disk));
}

TEST_F(WholeBroadcastTest, AHostWithTheFilesServesOthers) {
  const std::string big = random_text(4 * kMiB, 5);
  put("src/big", big);
  ASSERT_TRUE(stage({"d1"}, "src", "/in").ok());
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  expect_everywhere(disks_, "big", big);
  EXPECT_EQ(launcher_bytes(), 0U);
}

TEST_F(WholeBroadcastTest, AHostWithoutSourcesGetsItFromTheLauncher) {
  const std::string big = random_text(3 * kMiB, 6);
  put("src/big", big);
  on_sources(14, [](v1::StageSources& sources) {
    for (auto& source : *sources.mutable_sources()) source.set_port(1);  // nobody listens there
  });
  ASSERT_TRUE(stage(disks_, "src", "/in").ok());
  expect_everywhere(disks_, "big", big);
  EXPECT_EQ(sent_[14], big.size());
  EXPECT_EQ(launcher_bytes(), 2 * big.size());
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("n5: --stage: blocks come from the launcher instead of n4"),
                                     HasSubstr("refused"))));
}

TEST_F(WholeBroadcastTest, AFileThatChangesIsAnError) {
  put("src/big", random_text(30 * kMiB, 7));
  bool has_changed = false;
  on_data_ = [&](const v1::StageData&) {
    if (!std::exchange(has_changed, true)) put("src/big", "short");
  };
  const base::Status status = stage(disks_, "src", "/in");
  EXPECT_THAT(status.message(), HasSubstr("changed while it was copied"));
  for (const std::string& disk : disks_) EXPECT_FALSE(fs::exists(root_ / disk / "in/big"));
}

TEST_F(WholeBroadcastTest, AHostWhoseDiskHangsIsNamed) {
  put("src/big", random_text(4 * kMiB, 8));
  limits_.period = std::chrono::milliseconds(50);
  limits_.silence = std::chrono::milliseconds(400);
  hung_agent_ = 10;  // the first host, from which the others get their blocks
  const base::Status status = stage(disks_, "src", "/in");
  EXPECT_EQ(status.code(), base::Code::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("n1: --stage: no answer"));
}

}  // namespace
}  // namespace muster::launcherd::broadcast_test
