#include "collectives/join/status_page.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/directory.h"
#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::collectives::status_page_test {
namespace {

// A process has one page, so each test uses a child of its own.
class StatusPageTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::chmod(dir_.path().c_str(), 0700), 0); }

  // Returns whether all expectations of `body` held in a child, which is rank 3.
  bool in_child(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("MUSTER_SESSION_DIR", dir_.path().c_str(), 1);
      ::setenv("MUSTER_RANK", "3", 1);
      ::unsetenv("MUSTER_GENERATION");
      body();
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status == 0;
  }

  std::vector<std::string> pages() const { return base::entries_of(dir_.path()); }

  testing_support::TempDir dir_;
};

std::vector<std::uint64_t> numbers_of(const base::RankPage& page) {
  std::vector<std::uint64_t> numbers;
  for (const base::RankPageSample& sample : page.samples) {
    if (sample.number != 0) numbers.push_back(sample.number);
  }
  return numbers;
}

TEST_F(StatusPageTest, SaysTheWorldAndTheOperation) {
  EXPECT_TRUE(in_child([] {
    status_enter_world(1, 4);
    base::RankPage* const page = status_page();
    ASSERT_NE(page, nullptr);
    status_begin(*page, "allreduce", "grad/17", 42);
    EXPECT_EQ(page->magic, base::kRankPageMagic);
    EXPECT_EQ(page->job_rank, 3);
    EXPECT_EQ(page->world_rank, 1);
    EXPECT_EQ(page->size, 4);
    EXPECT_EQ(page->world, 0);
    EXPECT_STREQ(page->operation, "allreduce");
    EXPECT_STREQ(page->name, "grad/17");
    EXPECT_EQ(page->began_ns, 42);
    EXPECT_EQ(page->begun, 1U);
    EXPECT_EQ(page->ended, 0U);
    status_end(*page);
    EXPECT_EQ(page->ended, 1U);
    EXPECT_EQ(page->sequence % 2, 0U);
  }));
  EXPECT_EQ(pages().size(), 1U);
}

TEST_F(StatusPageTest, LongNamesAreCut) {
  EXPECT_TRUE(in_child([] {
    status_enter_world(0, 1);
    status_begin(*status_page(), std::string(100, 'o'), std::string(1000, 'n'), 1);
    EXPECT_EQ(std::strlen(status_page()->operation), sizeof(base::RankPage::operation) - 1);
    EXPECT_EQ(std::strlen(status_page()->name), sizeof(base::RankPage::name) - 1);
    EXPECT_EQ(status_page()->begun, 1U);
  }));
}

TEST_F(StatusPageTest, NumbersTheWorldsOfAGeneration) {
  EXPECT_TRUE(in_child([] {
    status_enter_world(0, 2);
    status_begin(*status_page(), "barrier", {}, 1);
    status_leave_world();
    EXPECT_EQ(status_page()->size, 0);
    EXPECT_EQ(status_page()->world_rank, -1);
    status_enter_world(0, 2);
    EXPECT_EQ(status_page()->world, 1);
    EXPECT_EQ(status_page()->begun, 0U);
    ::setenv("MUSTER_GENERATION", "5", 1);
    ::setenv("MUSTER_RANK", "0", 1);
    status_enter_world(0, 2);
    EXPECT_EQ(status_page()->world, 5 * 256);
    EXPECT_EQ(status_page()->job_rank, 0);
  }));
}

TEST_F(StatusPageTest, HeartbeatsNeedNoWorld) {
  EXPECT_TRUE(in_child([] {
    status_heartbeat(-1);
    status_heartbeat(-1);
    EXPECT_EQ(status_page()->beats, 2U);
    EXPECT_EQ(status_page()->size, 0);
    EXPECT_EQ(numbers_of(*status_page()).front(), (std::uint64_t{2} << base::kSampleKindShift) + 1);
  }));
}

TEST_F(StatusPageTest, ThereIsNoPageWithoutASession) {
  EXPECT_TRUE(in_child([] {
    ::unsetenv("MUSTER_SESSION_DIR");
    status_enter_world(0, 1);
    status_heartbeat(-1);
    EXPECT_EQ(status_page(), nullptr);
  }));
  EXPECT_TRUE(pages().empty());
}

TEST_F(StatusPageTest, ThereIsNoPageInADirectoryThatIsOpenToOthers) {
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  EXPECT_TRUE(in_child([] {
    status_heartbeat(-1);
    EXPECT_EQ(status_page(), nullptr);
  }));
  EXPECT_TRUE(pages().empty());
}

TEST_F(StatusPageTest, AChildDoesNotWriteOnItsParentsPage) {
  EXPECT_TRUE(in_child([this] {
    status_heartbeat(-1);
    EXPECT_TRUE(in_child([] {
      EXPECT_EQ(status_page(), nullptr);
      status_heartbeat(-1);
      EXPECT_EQ(status_page()->beats, 1U);
    }));
    EXPECT_EQ(status_page()->beats, 1U);
  }));
  EXPECT_EQ(pages().size(), 2U);
}

TEST_F(StatusPageTest, TheFileIsLockedWhileItsProcessLives) {
  EXPECT_TRUE(in_child([this] {
    status_heartbeat(-1);
    const base::UniqueFd file(::open((dir_ / pages().front()).c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_NE(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
  }));
  const base::UniqueFd file(::open((dir_ / pages().front()).c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
}

TEST_F(StatusPageTest, ThreadsLoseNoOperation) {
  EXPECT_TRUE(in_child([] {
    status_enter_world(0, 2);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int n = 0; n < 10'000; ++n) {
          status_begin(*status_page(), "allreduce", "a", n);
          status_end(*status_page());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(status_page()->begun, 40'000U);
    EXPECT_EQ(status_page()->ended, 40'000U);
    EXPECT_EQ(status_page()->sequence % 2, 0U);
  }));
}

constexpr std::int64_t kMilli = 1'000'000;

// The numbers that are kept of `count` operations, `apart` ns from each other.
std::set<std::uint64_t> kept(ArrivalSampler& sampler, std::uint64_t first, std::uint64_t count, std::int64_t& now,
                             std::int64_t apart) {
  std::set<std::uint64_t> numbers;
  for (std::uint64_t number = first; number < first + count; ++number) {
    base::RankPage page{};
    now += apart;
    sampler.arrive(page, number, now, now);
    if (page.samples_written != 0) numbers.insert(number);
  }
  return numbers;
}

TEST(ArrivalSampler, KeepsAllOfSlowOperations) {
  ArrivalSampler sampler(base::SampleKind::kCollective);
  std::int64_t now = kMilli;
  EXPECT_EQ(kept(sampler, 1, 50, now, 300 * kMilli).size(), 50U);
}

TEST(ArrivalSampler, KeepsAtMostAboutTwentyASecondOfFastOnes) {
  ArrivalSampler sampler(base::SampleKind::kCollective);
  std::int64_t now = kMilli;
  kept(sampler, 1, 1'000'000, now, 10'000);
  const std::size_t in_ten_seconds = kept(sampler, 1'000'001, 1'000'000, now, 10'000).size();
  EXPECT_LE(in_ten_seconds, 220U);
  EXPECT_GE(in_ten_seconds, 40U);
}

TEST(ArrivalSampler, RanksOfOtherSpeedKeepNumbersInCommon) {
  ArrivalSampler one(base::SampleKind::kCollective);
  ArrivalSampler other(base::SampleKind::kCollective);
  std::int64_t now_of_one = kMilli;
  std::int64_t now_of_other = kMilli;
  const auto of_one = kept(one, 1, 100'000, now_of_one, 1'000'000);
  const auto of_other = kept(other, 1, 100'000, now_of_other, 1'030'000);
  std::size_t common = 0;
  for (const std::uint64_t number : of_one) common += of_other.count(number);
  EXPECT_GE(common, std::min(of_one.size(), of_other.size()) / 2);
}

TEST(ArrivalSampler, KeepsAllAgainSoonAfterAFastTime) {
  ArrivalSampler sampler(base::SampleKind::kCollective);
  std::int64_t now = kMilli;
  kept(sampler, 1, 1'000'000, now, 1'000);
  const auto slow = kept(sampler, 1'000'001, 100, now, 500 * kMilli);
  EXPECT_GE(slow.size(), 70U);
}

}  // namespace
}  // namespace muster::collectives::status_page_test
