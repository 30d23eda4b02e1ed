#include "cli/verbs/logs_request.h"

#include <gtest/gtest.h>

#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/verb.h"

namespace muster::cli::logs_request_test {
namespace {

const base::WallTime kNow{std::chrono::seconds(1'782'000'000)};

base::Result<v1::LogsRequest> wish(const std::vector<std::string>& words) {
  const VerbCall call("logs", logs_doc(), words);
  EXPECT_FALSE(call.exit_code());
  return read_logs_request(call.settings(), kNow);
}

TEST(LogsRequest, NothingSaidIsAll) {
  const auto request = wish({});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->ranks_size(), 0);
  EXPECT_EQ(request->tail_lines(), 0);
  EXPECT_FALSE(request->has_since());
}

TEST(LogsRequest, RanksTimeAndLines) {
  const auto request = wish({"--rank", "0-2,7", "--since", "10m", "-n", "20", "k7"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ((std::vector<int>(request->ranks().begin(), request->ranks().end())), (std::vector<int>{0, 1, 2, 7}));
  EXPECT_EQ(request->since().seconds(), 1'782'000'000 - 600);
  EXPECT_EQ(request->tail_lines(), 20);
}

TEST(LogsRequest, MistakesNameTheOption) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--rank", "x"}, "--rank must be a list as 0-3,7, not 'x'"},
      {{"--tail", "0"}, "--tail must be a number of lines, 1 or more, not '0'"},
      {{"--since", "noon"}, "--since: 'noon' is no time: write how long ago, as 10m, or 2026-06-20T17:05:53Z"}};
  for (const auto& [words, message] : cases) EXPECT_EQ(wish(words).status().message(), message);
}

TEST(LogsRequest, TimesAsWePrintThem) {
  for (const int us : {0, 1, 123'456, 999'999}) {
    const base::WallTime time = kNow + std::chrono::microseconds(us);
    EXPECT_EQ(parse_time(base::format_rfc3339(time)).value(), time) << us;
  }
  EXPECT_EQ(parse_time("2026-06-20T17:05:53Z").value(), parse_time("2026-06-20T17:05:53.000Z").value());
  for (const char* const bad : {"", "2026-06-20", "2026-06-20T17:05:53", "2026-06-20T17:05:53.Z",
                                "2026-06-20T17:05:53Zx", "2026-13-20T17:05:53Z"}) {
    EXPECT_FALSE(parse_time(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace muster::cli::logs_request_test
