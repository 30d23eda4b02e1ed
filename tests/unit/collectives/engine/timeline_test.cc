// The file that a timeline writes: JSON, nested, and readable at any time.
#include "collectives/engine/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace muster::collectives::timeline_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class TimelineTest : public testing::Test {
 protected:
  ~TimelineTest() override { std::filesystem::remove(path_); }
  json read() const { return json::parse(std::ifstream(path_)); }

  const std::string path_ = std::filesystem::temp_directory_path() / ("timeline-" + std::to_string(getpid()) + ".json");
};

TEST_F(TimelineTest, PhasesAreNestedInTheProcessOfTheirTensor) {
  {
    auto timeline = Timeline::start(path_, true);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    (*timeline)->turn();
    (*timeline)->begin("a \"quoted\"\n name", "NEGOTIATE_ALLREDUCE");
    (*timeline)->ready("a \"quoted\"\n name", 1);
    (*timeline)->end("a \"quoted\"\n name");
    (*timeline)->begin("b", "ALLREDUCE");
    (*timeline)->end("b");
  }
  const json events = read();
  std::map<std::string, int> kinds;
  std::map<std::string, int> numbers;
  for (const json& event : events) {
    ++kinds[event["ph"]];
    if (event.value("name", "") == "process_name") numbers[event["args"]["name"]] = event["pid"];
  }
  EXPECT_EQ(kinds["B"], 2);
  EXPECT_EQ(kinds["E"], 2);
  EXPECT_EQ(kinds["X"], 1);
  EXPECT_EQ(kinds["i"], 1);
  EXPECT_EQ(numbers["a \"quoted\"\n name"], 1);
  EXPECT_EQ(numbers["b"], 2);
  EXPECT_GT(events[0]["args"]["start_time_since_epoch_in_micros"], 1'600'000'000'000'000);
  std::int64_t last = 0;
  for (const json& event : events) {
    if (!event.contains("ts")) continue;
    EXPECT_GE(event["ts"], last);
    last = event["ts"];
  }
}

TEST_F(TimelineTest, OperationsWithoutNameShareRowsWhenTheyDoNotOverlap) {
  {
    auto timeline = Timeline::start(path_, false);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    for (int i = 1; i <= 100; ++i) {
      const std::string name = "allreduce.noname." + std::to_string(i);
      (*timeline)->begin(name, "NEGOTIATE_ALLREDUCE");
      (*timeline)->ready(name, 1);
      (*timeline)->end(name);
      (*timeline)->begin(name, "ALLREDUCE");
      (*timeline)->begin(name, "COPY");
      (*timeline)->end(name);
      (*timeline)->end(name);
    }
    (*timeline)->begin("allreduce.noname.101", "ALLREDUCE");
    (*timeline)->begin("allreduce.noname.102", "ALLREDUCE");
    (*timeline)->begin("allgather.noname.1", "ALLGATHER");
    (*timeline)->end("allreduce.noname.101");
    (*timeline)->begin("allreduce.noname.103", "ALLREDUCE");
    (*timeline)->begin("allreduce.noname.0.7", "ALLREDUCE");  // muster.torch's name of a parameter
  }
  const json events = read();
  std::vector<std::string> rows;
  std::vector<int> last;
  for (const json& event : events) {
    if (event.value("name", "") == "process_name" && event["pid"] != 0) rows.push_back(event["args"]["name"]);
    if (event["ph"] == "B") last.push_back(event["pid"]);
  }
  EXPECT_THAT(rows, testing::ElementsAre("allreduce.noname.1", "allreduce.noname.2", "allgather.noname.1",
                                         "allreduce.noname.0.7"));
  ASSERT_GE(last.size(), 5U);
  last.erase(last.begin(), last.end() - 5);
  EXPECT_THAT(last, testing::ElementsAre(1, 2, 3, 1, 4));
}

TEST_F(TimelineTest, WithoutMarksTurnsAreNotShown) {
  { (*Timeline::start(path_, false))->turn(); }
  EXPECT_EQ(read().size(), 1U);
}

TEST_F(TimelineTest, TheFileIsCompleteWhileItIsWritten) {
  auto timeline = Timeline::start(path_, false);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  for (int i = 0; i < 50; ++i) {
    const std::string name = "tensor " + std::to_string(i);
    (*timeline)->begin(name, "ALLREDUCE");
    (*timeline)->end(name);
    // Until the writer has come to it.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string text;
    while (text.find(name) == std::string::npos) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
      text.assign(std::istreambuf_iterator<char>(std::ifstream(path_).rdbuf()), {});
    }
  }
  *timeline = nullptr;
  EXPECT_EQ(read().size(), 1U + 4 * 50);
}

TEST_F(TimelineTest, AFileThatCannotBeWrittenIsAnError) {
  const auto timeline = Timeline::start("/nonexistent/timeline.json", false);
  EXPECT_EQ(timeline.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(timeline.status().message(), HasSubstr("/nonexistent/timeline.json"));
}

}  // namespace
}  // namespace muster::collectives::timeline_test
