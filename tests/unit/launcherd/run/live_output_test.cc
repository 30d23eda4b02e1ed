#include "launcherd/run/live_output.h"

#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::launcherd::live_output_test {
namespace {

class Lines final : public OutputSink {
 public:
  base::Status write(int rank, proto::OutputStream, std::string_view bytes, std::uint8_t) override {
    calls.push_back(fmt::format("{}:{}", rank, bytes));
    return base::ok_status();
  }
  base::Status end_rank(int rank) override {
    calls.push_back(fmt::format("{} ended", rank));
    return base::ok_status();
  }
  base::Status end_agent(int agent) override {
    calls.push_back(fmt::format("agent {} ended", agent));
    return base::ok_status();
  }
  base::Status flush() override {
    calls.emplace_back("flush");
    return base::ok_status();
  }
  std::vector<std::string> calls;
};

TEST(LiveOutput, LabelsByTheRankOfTheGeneration) {
  Lines lines;
  LiveOutput output(&lines);
  const auto write = [&](int number) { EXPECT_TRUE(output.write(number, proto::OutputStream::kStdout, "x", 0).ok()); };
  write(2);
  output.set_ranks({{2, 0}, {3, 1}});
  write(2);
  write(3);
  output.set_ranks({{3, 0}});
  write(2);  // it has left the job, and still writes
  EXPECT_TRUE(output.end_rank(3).ok());
  EXPECT_TRUE(output.end_agent(7).ok());
  EXPECT_TRUE(output.flush().ok());
  EXPECT_EQ(lines.calls, (std::vector<std::string>{"2:x", "0:x", "1:x", "0:x", "0 ended", "agent 7 ended", "flush"}));
}

}  // namespace
}  // namespace muster::launcherd::live_output_test
