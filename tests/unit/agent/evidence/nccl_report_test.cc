// Reports as NCCL's RAS writes them, by the format of its sources. No NCCL has written these.
#include "agent/evidence/nccl_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent::nccl_report_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string rank(int number, std::int64_t pid, int all_reduces) {
  return fmt::format(
      R"({{"rank": {}, "host": "10.0.0.1", "pid": {}, "cuda_dev": 0, "nvml_dev": 0, "status": {{"init_state": 0,
      "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false}},
      "collective_counts": {{"Broadcast": 1, "AllReduce": {}}}}})",
      number, pid, all_reduces);
}

std::string missing(int number, std::int64_t pid, bool is_dead) {
  return fmt::format(
      R"({{"rank": {}, "host": "unknown", "pid": {}, "cuda_dev": 0, "nvml_dev": 0,
      "status": {{"unresponsive": true, "considered_dead": {}}}}})",
      number, pid, is_dead);
}

std::string communicator(int size, const std::string& ranks, const std::string& missing_ranks = "") {
  return fmt::format(
      R"({{"hash": "0x1", "secondary_hash": "0x1:0x2", "size": {}, "ranks_count": 1, "missing_ranks_count": 0,
      "ranks": [{}], "missing_ranks": [{}]}})",
      size, ranks, missing_ranks);
}

std::string report(const std::string& communicators) {
  return fmt::format(
      R"({{"nccl_version": "2.28.3", "cuda_runtime_version": 12080, "cuda_driver_version": 12080,
      "timestamp": "2026-11-29 03:00:00", "communicators_count": 1, "communicators": [{}],
      "ras": {{"collection_time_sec": 0.012, "timeouts_count": 0}}}})",
      communicators);
}

// The findings about a job of four ranks, of which this host has ranks 0 and 1 with the pids 100 and 101.
std::vector<model::NcclFinding> findings(const std::string& communicators) {
  const auto parsed = parse_nccl_report(report(communicators));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return {};
  return nccl_findings(*parsed, {.size = 4, .ranks = {{100, 0}, {101, 1}}});
}

TEST(NcclReport, AHealthyJobHasNoFindings) {
  EXPECT_THAT(findings(communicator(2, rank(0, 100, 17) + "," + rank(1, 101, 17))), IsEmpty());
  EXPECT_THAT(findings(""), IsEmpty());
}

TEST(NcclReport, NamesTheRankThatIsBehind) {
  const auto found = findings(
      communicator(4, rank(0, 100, 17) + "," + rank(1, 101, 17) + "," + rank(2, 200, 16) + "," + rank(3, 201, 17)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "communicator of 4 ranks: rank 2 has begun 16 operations AllReduce, but 3 ranks 17");
  EXPECT_THAT(found[0].ranks, ElementsAre(2));
}

TEST(NcclReport, BlamesNoRankIfMostAreBehind) {
  const auto found = findings(communicator(2, rank(0, 100, 17) + "," + rank(1, 101, 16)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text,
            "communicator of 2 ranks, by NCCL's numbers: its ranks have begun between 16 and 17 operations AllReduce");
  EXPECT_THAT(found[0].ranks, IsEmpty());
}

TEST(NcclReport, NamesMissingRanks) {
  const auto found = findings(
      communicator(4, rank(0, 100, 17) + "," + rank(1, 101, 17), missing(3, 300, true) + "," + missing(2, -1, false)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].text, "communicator of 4 ranks: ranks 2-3 do not answer NCCL, and NCCL has given up on 1 of them");
  EXPECT_THAT(found[0].ranks, ElementsAre(2, 3));
  const auto one = findings(communicator(4, rank(0, 100, 17), missing(3, 300, true)));
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].text, "communicator of 4 ranks: rank 3 does not answer NCCL, and NCCL has given up on it");
}

// NCCL's numbers are those of a communicator. They need not be the job's.
TEST(NcclReport, NamesNoRanksOfTheJobIfTheNumbersDiffer) {
  const std::string behind = rank(2, 200, 16) + "," + rank(3, 201, 17);
  const auto swapped = findings(communicator(4, rank(1, 100, 17) + "," + rank(0, 101, 17) + "," + behind));
  ASSERT_EQ(swapped.size(), 1U);
  EXPECT_EQ(swapped[0].text,
            "communicator of 4 ranks, by NCCL's numbers: rank 2 has begun 16 operations AllReduce, but 3 ranks 17");
  EXPECT_THAT(swapped[0].ranks, IsEmpty());
  const auto unknown = findings(communicator(4, rank(0, -1, 17) + "," + rank(1, -1, 17) + "," + behind));
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_THAT(unknown[0].ranks, IsEmpty()) << "nothing shows that the numbers are the job's";
}

TEST(NcclReport, FindingsAreBounded) {
  std::string many = communicator(4, rank(0, 100, 17), missing(3, 300, true));
  for (int i = 0; i < 20; ++i) many += "," + communicator(4, rank(0, 100, 17), missing(3, 300, true));
  EXPECT_EQ(findings(many).size(), 8U);
}

TEST(NcclReport, RefusesWhatIsNoReport) {
  for (const std::string& bad :
       {std::string("{}"), std::string("OK"), std::string("{\"communicators\": 1}"), report("1"),
        report("{\"size\": 0}"), report(communicator(2, rank(2, 1, 1))),
        report(communicator(2, rank(0, 1, 1) + "," + rank(0, 1, 1))), report(communicator(2, rank(0, 1, -1))),
        report(communicator(2, rank(0, 1, 1), missing(0, 1, false))), report("{\"size\": 1e3}")}) {
    EXPECT_FALSE(parse_nccl_report(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace muster::agent::nccl_report_test
