#include "agent/job/rank_status.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/directory.h"
#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::rank_status_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kNow = 10'000'000'000;
const base::MonotonicTime kNowTime{std::chrono::nanoseconds(kNow)};

base::RankPage sound_page() {
  base::RankPage page{};
  page.magic = base::kRankPageMagic;
  page.sequence = 2;
  page.job_rank = 5;
  page.world_rank = 1;
  page.size = 4;
  page.world = 256;
  page.began_ns = kNow - 3'000'000'000;
  page.ended_ns = kNow - 4'000'000'000;
  std::strcpy(page.operation, "allreduce");
  std::strcpy(page.name, "grad/17");
  page.begun = 8;
  page.ended = 7;
  page.beats = 2;
  return page;
}

std::span<const std::byte> bytes_of(const base::RankPage& page) {
  return std::as_bytes(std::span(&page, 1));
}

std::optional<RankStatus> parse(const base::RankPage& first, const base::RankPage& second) {
  return parse_rank_page(bytes_of(first), bytes_of(second), kNowTime);
}

std::optional<RankStatus> parse(const base::RankPage& page) {
  return parse(page, page);
}

TEST(ParseRankPage, ReadsASoundPage) {
  const auto status = parse(sound_page());
  ASSERT_TRUE(status);
  const v1::CollectivePlace place = collective_place(*status, kNowTime);
  EXPECT_EQ(status->rank, 5);
  EXPECT_EQ(place.size(), 4);
  EXPECT_EQ(place.begun(), 8U);
  EXPECT_EQ(place.ended(), 7U);
  EXPECT_EQ(place.operation(), "allreduce");
  EXPECT_EQ(place.name(), "grad/17");
  EXPECT_EQ(place.since_ms(), 3000);
  EXPECT_EQ(place.beats(), 2U);
}

TEST(ParseRankPage, CountsTheTimeFromTheEndOfTheLastOperationIfNoneRuns) {
  base::RankPage page = sound_page();
  page.ended = 8;
  const auto status = parse(page);
  ASSERT_TRUE(status);
  EXPECT_EQ(collective_place(*status, kNowTime).since_ms(), 4000);
}

TEST(ParseRankPage, NamesTheOperationOfTheWorldWhileItRuns) {
  base::RankPage page = sound_page();
  page.ended = 8;
  page.world_begun = 20;
  page.world_ended = 19;
  page.world_began_ns = kNow - 2'000'000'000;
  std::strcpy(page.world_operation, "barrier");
  const auto status = parse(page);
  ASSERT_TRUE(status);
  const v1::CollectivePlace place = collective_place(*status, kNowTime);
  EXPECT_EQ(place.begun(), 28U);
  EXPECT_EQ(place.ended(), 27U);
  EXPECT_EQ(place.operation(), "barrier");
  EXPECT_EQ(place.name(), "");
  EXPECT_EQ(place.since_ms(), 2000);
  page.world_ended = 20;
  EXPECT_EQ(parse(page)->operation, "barrier");  // the last one that began
  page.begun = 9;
  EXPECT_EQ(parse(page)->operation, "allreduce");
}

TEST(ParseRankPage, LeavesOutAnOperationThatIsBeingWritten) {
  base::RankPage page = sound_page();
  page.sequence = 3;
  const auto status = parse(page);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->operation, "");
  EXPECT_EQ(status->begun, 8U);
  base::RankPage later = sound_page();
  later.sequence = 4;
  EXPECT_EQ(parse(sound_page(), later)->name, "");
}

TEST(ParseRankPage, RefusesWhatIsNoPage) {
  base::RankPage page = sound_page();
  EXPECT_FALSE(parse_rank_page(bytes_of(page).first(100), bytes_of(page), kNowTime));
  page.magic = 1;
  EXPECT_FALSE(parse(page));
  page = sound_page();
  page.job_rank = -1;
  EXPECT_FALSE(parse(page));
  page = sound_page();
  page.size = -4;
  EXPECT_FALSE(parse(page));
  page = sound_page();
  page.world_rank = 4;
  EXPECT_FALSE(parse(page));
}

TEST(ParseRankPage, BelievesNoImpossibleNumber) {
  base::RankPage page = sound_page();
  page.ended = 1'000;
  page.ended_ns = kNow + 1;
  page.name[0] = '\xff';
  page.name[1] = '\x1b';
  std::memset(page.operation, 'x', sizeof page.operation);
  const auto status = parse(page);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->ended, 8U);
  EXPECT_EQ(collective_place(*status, kNowTime).since_ms(), 0);
  EXPECT_EQ(status->operation, std::string(16, 'x'));
  EXPECT_EQ(status->name, "\uFFFD\\x1bad/17");
}

TEST(ParseRankPage, ReturnsArrivalsThatDidNotChangeMeanwhile) {
  base::RankPage page = sound_page();
  page.samples[0] = {.number = 8, .ns = 800};
  page.samples[1] = {.number = 4, .ns = 400};
  page.samples[2] = {.number = (std::uint64_t{2} << base::kSampleKindShift) | 1, .ns = 500};
  page.samples[3] = {.number = (std::uint64_t{3} << base::kSampleKindShift) | 1, .ns = 500};
  page.samples[4] = {.number = 12, .ns = kNow + 1};
  base::RankPage later = page;
  page.samples[5] = {.number = 2, .ns = 200};
  later.samples[5] = {.number = 16, .ns = 1600};
  const auto status = parse(page, later);
  ASSERT_TRUE(status);
  EXPECT_THAT(status->arrivals, ElementsAre(RankArrival{base::SampleKind::kCollective, 4, 400},
                                            RankArrival{base::SampleKind::kCollective, 8, 800},
                                            RankArrival{base::SampleKind::kHeartbeat, 1, 500}));
}

class ReadRankStatuses : public ::testing::Test {
 protected:
  // Writes a page as a process does that lives as long as the result.
  base::UniqueFd write_page(const std::string& name, const base::RankPage& page) {
    dir_.write(name, std::string(reinterpret_cast<const char*>(&page), sizeof page));
    base::UniqueFd file(::open((dir_ / name).c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0);
    return file;
  }

  testing_support::TempDir dir_;
};

TEST_F(ReadRankStatuses, ReadsThePagesOfLivingProcesses) {
  const base::UniqueFd file = write_page("status.10.1", sound_page());
  dir_.write("alive", "");
  const auto place = collective_place_of(dir_.path(), 5);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->name(), "grad/17");
  EXPECT_FALSE(collective_place_of(dir_.path(), 4));
}

TEST_F(ReadRankStatuses, RemovesPagesOfDeadProcesses) {
  write_page("status.10.1", sound_page());
  EXPECT_THAT(read_rank_statuses(dir_.path()), IsEmpty());
  EXPECT_THAT(base::entries_of(dir_.path()), IsEmpty());
}

TEST_F(ReadRankStatuses, FollowsNoLinkAndWaitsForNoPipe) {
  const base::UniqueFd file = write_page("page", sound_page());
  ASSERT_EQ(::symlink((dir_ / "page").c_str(), (dir_ / "status.1.1").c_str()), 0);
  ASSERT_EQ(::mkfifo((dir_ / "status.2.1").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir((dir_ / "status.3.1").c_str(), 0700), 0);
  const base::UniqueFd shorter = write_page("status.4.1", sound_page());
  ASSERT_EQ(::ftruncate(shorter.get(), 100), 0);
  EXPECT_THAT(read_rank_statuses(dir_.path()), IsEmpty());
}

TEST_F(ReadRankStatuses, IsEmptyWithoutADirectory) {
  EXPECT_THAT(read_rank_statuses(dir_ / "none"), IsEmpty());
}

TEST(FindRankStatus, PrefersTheProcessThatIsInAWorld) {
  const auto found =
      find_rank_status({{.rank = 1, .since_ns = 9}, {.rank = 1, .size = 2, .since_ns = 3}, {.rank = 2}}, 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size, 2);
  EXPECT_FALSE(find_rank_status({{.rank = 2}}, 1));
}

}  // namespace
}  // namespace muster::agent::rank_status_test
