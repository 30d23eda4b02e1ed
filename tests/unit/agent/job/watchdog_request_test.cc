#include "agent/job/watchdog_request.h"

#include <vector>

#include <gtest/gtest.h>

namespace muster::agent::watchdog_request_test {
namespace {

// A line as torch 1.13's and 2.11's clients write it.
constexpr std::string_view kAcquire =
    R"({"version": 1, "pid": 77, "scope_id": "train.py#12", "expiration_time": 1700000000.5, "signal": 9})";

TEST(WatchdogRequest, ReadsWhatTorchsClientWrites) {
  const auto acquire = parse_watchdog_request(kAcquire);
  ASSERT_TRUE(acquire.ok()) << acquire.status();
  EXPECT_EQ(*acquire, (WatchdogRequest{77, "train.py#12", 1700000000.5, 9}));
  EXPECT_FALSE(acquire->is_release());
  const auto release =
      parse_watchdog_request(R"({"version": 1, "pid": 77, "scope_id": "s", "expiration_time": -1, "signal": 0})");
  ASSERT_TRUE(release.ok()) << release.status();
  EXPECT_TRUE(release->is_release());
}

TEST(WatchdogRequest, IgnoresUnknownFieldsOfLaterClients) {
  const auto request = parse_watchdog_request(
      R"( {"run_id":"r","more":null,"x":-1.5e3,"is_new":true,"signal":-1,"pid":1,"scope_id":"","expiration_time":0}	)");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(*request, (WatchdogRequest{1, "", 0, -1}));
}

TEST(WatchdogRequest, KeepsEscapesOfTheScope) {
  const auto request = parse_watchdog_request(R"({"pid":1,"scope_id":"a\"}\\ \u00e9","expiration_time":1,"signal":9})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->scope, R"(a\"}\\ \u00e9)");
}

TEST(WatchdogRequest, RefusesWhatIsNoRequest) {
  for (const std::string_view line : {
           "",
           "{",
           "{}",
           "[]",
           "77",
           "null",
           R"("pid")",                                                                // no object
           R"({"pid":1,"scope_id":"s","expiration_time":1})",                         // a field is missing
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":9)",               // open
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":9}})",             // more
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":9} {})",           // two
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":9,})",             // comma
           R"({"pid":1,"pid":2,"scope_id":"s","expiration_time":1,"signal":9})",      // repeated
           R"({"pid":"1","scope_id":"s","expiration_time":1,"signal":9})",            // types
           R"({"pid":1,"scope_id":7,"expiration_time":1,"signal":9})",                //
           R"({"pid":1,"scope_id":"s","expiration_time":"1","signal":9})",            //
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":null})",           //
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":9,"x":{}})",       // nested
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":9,"x":[1]})",      //
           R"({"version":2,"pid":1,"scope_id":"s","expiration_time":1,"signal":9})",  // version
           R"({"pid":0,"scope_id":"s","expiration_time":1,"signal":9})",              // pids
           R"({"pid":-1,"scope_id":"s","expiration_time":1,"signal":9})",             //
           R"({"pid":1.5,"scope_id":"s","expiration_time":1,"signal":9})",            //
           R"({"pid":4294967297,"scope_id":"s","expiration_time":1,"signal":9})",     //
           R"({"pid":1e300,"scope_id":"s","expiration_time":1,"signal":9})",          //
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":65})",             // signals
           R"({"pid":1,"scope_id":"s","expiration_time":1,"signal":9.5})",            //
           R"({"pid":1,"scope_id":"s","expiration_time":NaN,"signal":9})",            // times
           R"({"pid":1,"scope_id":"s","expiration_time":Infinity,"signal":9})",       //
           R"({"pid":1,"scope_id":"s","expiration_time":inf,"signal":9})",            //
           R"({"pid":1,"scope_id":"s","expiration_time":1e999,"signal":9})",          //
           R"({"pid":1,"scope_id":"s\","expiration_time":1,"signal":9})",             // strings
           "{\"pid\":1,\"scope_id\":\"a\x01b\",\"expiration_time\":1,\"signal\":9}",  //
       }) {
    EXPECT_EQ(parse_watchdog_request(line).status().code(), base::Code::kInvalidArgument) << line;
  }
}

TEST(WatchdogRequest, RefusesEveryBeginningOfALine) {
  for (std::size_t size = 0; size < kAcquire.size(); ++size) {
    EXPECT_FALSE(parse_watchdog_request(kAcquire.substr(0, size)).ok()) << size;
  }
}

TEST(WatchdogLines, GivesWholeLinesHoweverTheyCome) {
  const std::string bytes = "one\n\ntwo\nthr";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    WatchdogLines lines;
    std::vector<std::string> found;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      lines.append(std::string_view(bytes).substr(at, piece), [&](std::string_view line) { found.emplace_back(line); });
    }
    EXPECT_EQ(found, (std::vector<std::string>{"one", "", "two"})) << piece;
  }
}

TEST(WatchdogLines, DropsALineThatIsTooLong) {
  WatchdogLines lines;
  std::vector<std::string> found;
  const auto keep = [&](std::string_view line) { found.emplace_back(line); };
  const std::string longest(kMaxWatchdogLine, 'x');
  lines.append(longest + "\n", keep);
  EXPECT_EQ(found, std::vector<std::string>{longest});
  for (int i = 0; i < 3; ++i) lines.append(longest, keep);  // one endless line
  lines.append("y\nnext\n", keep);
  EXPECT_EQ(found, (std::vector<std::string>{longest, "next"}));
  EXPECT_EQ(lines.dropped(), 1u);
}

}  // namespace
}  // namespace muster::agent::watchdog_request_test
