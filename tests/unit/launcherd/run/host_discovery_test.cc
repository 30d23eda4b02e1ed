#include "launcherd/run/host_discovery.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::host_discovery_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The script of the tests runs the file "script", which each test may replace while the discovery runs. Each run adds a
// line to the file "runs".
class HostDiscoveryTest : public ::testing::Test {
 protected:
  void write_script(const std::string& body) {
    std::ofstream(directory_ / "next") << body << "\n";
    std::filesystem::rename(directory_ / "next", directory_ / "script");
  }

  void begin(const std::string& first, milliseconds time_limit = std::chrono::seconds(30)) {
    auto hosts = *model::parse_host_list(first, "hosts");
    fill_slots(std::nullopt, hosts);
    const std::string script = fmt::format("echo >> {0}/runs; cd {0}; . ./script", directory_.path());
    discovery_ = std::make_unique<HostDiscovery>(
        loop_,
        HostDiscoveryOptions{.script = script, .slots_per_host = 3, .pause = milliseconds(5), .time_limit = time_limit},
        hosts,
        HostDiscovery::Events{.on_hosts = [this](const auto& now) { report(now); },
                              .on_warning = [this](const std::string& line) { warnings_.push_back(line); }});
    ASSERT_TRUE(discovery_->start().ok());
  }

  // Runs the loop until `is_done`, or for a minute.
  template <typename Done>
  bool run_until(Done is_done) {
    const base::Timer poll = loop_.every(milliseconds(2), [&] {
      if (is_done()) loop_.stop();
    });
    const base::Timer limit = loop_.after(std::chrono::minutes(1), [&] { loop_.stop(); });
    loop_.run();
    return is_done();
  }

  int runs() const {
    std::ifstream file(directory_ / "runs");
    return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  }

  // Waits until the script has run `count` more times.
  bool run_more(int count) {
    const int before = runs();
    return run_until([&] { return runs() > before + count; });
  }

  const testing_support::TempDir directory_;
  base::Loop loop_;
  std::vector<std::string> lists_;
  std::vector<std::string> warnings_;
  std::unique_ptr<HostDiscovery> discovery_;

 private:
  void report(const std::vector<model::HostSpec>& hosts) {
    std::string line;
    for (const model::HostSpec& host : hosts) line += fmt::format("{}:{} ", host.name, host.slots.value_or(-1));
    lists_.push_back(line);
  }
};

TEST_F(HostDiscoveryTest, ReportsAnotherListOnce) {
  write_script("echo n2:2; echo n1:2");  // the order does not count
  begin("n1:2,n2:2");
  ASSERT_TRUE(run_more(3));
  EXPECT_THAT(lists_, IsEmpty());
  write_script("echo n1:2; echo n2:2; echo n3");
  ASSERT_TRUE(run_until([&] { return !lists_.empty(); }));
  ASSERT_TRUE(run_more(3));
  EXPECT_THAT(lists_, ElementsAre("n1:2 n2:2 n3:3 "));
  write_script("echo n2:2; echo n3:1");
  ASSERT_TRUE(run_until([&] { return lists_.size() > 1; }));
  EXPECT_THAT(lists_, ElementsAre("n1:2 n2:2 n3:3 ", "n2:2 n3:1 "));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(HostDiscoveryTest, IgnoresAListThatComesOnce) {
  write_script("if [ -e once ]; then echo n1:2; else : > once; echo n1:2; echo n9:2; fi");
  begin("n1:2");
  ASSERT_TRUE(run_more(4));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "once"));
  EXPECT_THAT(lists_, IsEmpty());
}

TEST_F(HostDiscoveryTest, TroubleChangesNothingAndWarnsOnceForEachKind) {
  write_script("echo broken >&2; exit 3");
  begin("n1:2");
  ASSERT_TRUE(run_more(3));
  write_script("true");  // it prints nothing
  ASSERT_TRUE(run_more(3));
  write_script("echo n1:2; echo 'n2; rm -rf /'");
  ASSERT_TRUE(run_more(3));
  write_script("yes n1");
  ASSERT_TRUE(run_more(3));
  write_script("exit 4");
  ASSERT_TRUE(run_more(3));
  EXPECT_THAT(lists_, IsEmpty());
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("ended with exit code 3; it printed: broken; the last list of hosts stays in use"),
                          HasSubstr("no host is named"), HasSubstr(":2:"), HasSubstr("prints more than 1 MiB")));
}

TEST_F(HostDiscoveryTest, WarnsAgainAfterManyGoodRuns) {
  write_script("exit 3");
  begin("n1:2");
  ASSERT_TRUE(run_until([&] { return warnings_.size() == 1; }));
  write_script("echo n1:2");
  ASSERT_TRUE(run_more(35));
  write_script("exit 3");
  EXPECT_TRUE(run_until([&] { return warnings_.size() == 2; }));
}

TEST_F(HostDiscoveryTest, KillsARunThatHangsAndRunsTheScriptAgain) {
  write_script("echo n1:2; echo n2:2; exec sleep 1000");
  begin("n1:2", milliseconds(200));
  ASSERT_TRUE(run_more(3));
  EXPECT_THAT(lists_, IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("took too long and was killed")));
  write_script("echo n1:2; echo n2:2");
  EXPECT_TRUE(run_until([&] { return !lists_.empty(); }));
  EXPECT_THAT(lists_, ElementsAre("n1:2 n2:2 "));
}

TEST_F(HostDiscoveryTest, AChildThatKeepsTheOutputOpenDelaysNothing) {
  write_script("sleep 1000 & echo n1:2; echo n2:2");
  begin("n1:2");
  EXPECT_TRUE(run_until([&] { return !lists_.empty(); }));
  EXPECT_THAT(lists_, ElementsAre("n1:2 n2:2 "));
}

TEST_F(HostDiscoveryTest, ItsEndKillsARunThatHangs) {
  write_script("sleep 1000 & echo $! > pid; wait");
  begin("n1:2");
  int pid = 0;
  ASSERT_TRUE(run_until([&] { return static_cast<bool>(std::ifstream(directory_ / "pid") >> pid); }));
  const base::UniqueFd sleeper(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto before = std::chrono::steady_clock::now();
  discovery_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
  if (sleeper.valid()) {
    pollfd end{sleeper.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&end, 1, 30'000), 1);
  }
  EXPECT_THAT(lists_, IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace muster::launcherd::host_discovery_test
