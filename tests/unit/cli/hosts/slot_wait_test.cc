#include "cli/hosts/slot_wait.h"

#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::cli::slot_wait_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SlotWaitTest : public ::testing::Test {
 protected:
  SlotWaitTest() {
    request_.job.live.emplace();
    request_.job.live->min_ranks = 3;
  }

  // Waits with this script, and returns the hosts or the error.
  std::string wait(const std::string& script) {
    request_.elastic.discovery_script = fmt::format("cd {}; {}", directory_.path(), script);
    const base::Status status = wait_for_slots(
        request_, [this](const std::string& line) { lines_.push_back(line); }, milliseconds(5));
    if (!status.ok()) return status.message();
    if (!request_.elastic.discovered) return "none";
    std::string text;
    for (const model::HostSpec& host : *request_.elastic.discovered) {
      text += fmt::format("{}:{} ", host.name, host.slots.value_or(0));
    }
    return text;
  }

  const testing_support::TempDir directory_;
  JobRequest request_;
  std::vector<std::string> lines_;
};

TEST_F(SlotWaitTest, EnoughSlotsNeedNoWait) {
  EXPECT_EQ(wait("echo n1:2; echo n2"), "n1:2 n2:0 ");
  request_.elastic.slots_per_host = 4;
  EXPECT_EQ(wait("echo n1:2; echo n2"), "n1:2 n2:4 ");
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(SlotWaitTest, OtherJobsDoNotWait) {
  request_.job.live.reset();
  EXPECT_EQ(wait("echo n1"), "none");
}

TEST_F(SlotWaitTest, WaitsForTheSlotsOfTheStart) {
  request_.job.placement.np = 4;
  // The second run finds no host, the third and fourth fail, and two runs find three slots.
  const std::string script =
      "echo >> runs; case $(wc -l < runs) in 1) echo n1:1;; 2) ;; 3|4) exit 3;; 5|6) echo n1:3;; *) echo n1:4;; esac";
  EXPECT_EQ(wait(script), "n1:4 ");
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("lists 1; the wait ends after 600 s (--elastic-timeout)"),
                                  HasSubstr("lists 0; "), HasSubstr("exit code 3"), HasSubstr("lists 3; ")));
  EXPECT_THAT(lines_.front(), ::testing::StartsWith("waiting for 4 slots: cd "));
}

TEST_F(SlotWaitTest, GivesUpAfterTheElasticTimeout) {
  request_.job.live->elastic_timeout = std::chrono::seconds(0);
  EXPECT_EQ(wait("echo n1:2"),
            "Timed out waiting for minimum number of slots to become available. Please check that you have enough "
            "resources to run at least 3 Horovod processes.");
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(SlotWaitTest, AFirstRunThatFailsEndsTheWait) {
  EXPECT_THAT(wait("echo no cluster >&2; exit 5"), HasSubstr("ended with exit code 5; it printed: no cluster"));
  EXPECT_THAT(wait("echo n1:x"), HasSubstr(":1:"));
  EXPECT_THAT(lines_, IsEmpty());
}

}  // namespace
}  // namespace muster::cli::slot_wait_test
