#include "launcherd/daemon/dialled_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::dialled_hosts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class DialledHostsTest : public ::testing::Test {
 protected:
  std::unique_ptr<DialledHosts> load(std::vector<model::HostSpec> listed) {
    DialledHosts::Options options;
    options.file = directory / "dialled";
    options.is_here = [this](const std::string& host) {
      asked.push_back(host);
      return here.contains(host);
    };
    options.on_hosts = [this](const std::vector<model::HostSpec>& hosts) {
      lists.push_back(shown(hosts));
      loop.stop();
    };
    options.on_left = [this](const std::string& host) { lines += "left: " + host + "\n"; };
    options.on_line = [this](const std::string& line) { lines += line + "\n"; };
    options.patience = 1ms;
    auto loaded = DialledHosts::load(loop, std::move(listed), std::move(options));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }
  static std::string shown(const std::vector<model::HostSpec>& hosts) {
    std::string text;
    for (const auto& host : hosts) text += fmt::format("{}:{} ", host.name, host.slots.value_or(0));
    return text;
  }

  testing_support::TempDir directory;
  base::Loop loop;
  std::set<std::string> here;
  std::vector<std::string> asked;
  std::vector<std::string> lists;
  std::string lines;
};

TEST_F(DialledHostsTest, AHostThatComesIsInTheListUntilItHasLeft) {
  const auto hosts = load({{.name = "n1", .slots = 2}});
  hosts->join("n7", 4);
  EXPECT_THAT(lists, ElementsAre("n1:2 n7:4 "));
  hosts->join("n7", 4);  // again, after the agent has ended
  EXPECT_EQ(lists.size(), 1u);
  hosts->join("n7", 3);
  EXPECT_EQ(lists.back(), "n1:2 n7:3 ");
  hosts->recheck_later("n7");
  loop.run();
  EXPECT_EQ(lists.back(), "n1:2 ");
  EXPECT_THAT(lines, HasSubstr("n7 joined with 4 slots\n"));
  EXPECT_THAT(lines, HasSubstr("left: n7\nn7 left"));
}

TEST_F(DialledHostsTest, AHostWhoseAgentRunsStays) {
  const auto hosts = load({});
  hosts->join("n7", 4);
  here.insert("n7");
  hosts->recheck_later("n7");
  const base::Timer end = loop.after(50ms, [this] { loop.stop(); });
  loop.run();
  EXPECT_THAT(asked, ElementsAre("n7"));
  EXPECT_EQ(shown(hosts->hosts()), "n7:4 ");
  here.clear();  // and is checked again when recheck_later() is called
  hosts->recheck_later("n7");
  loop.run();
  EXPECT_EQ(shown(hosts->hosts()), "");
}

TEST_F(DialledHostsTest, WhoComesBackInTimeHasNotLeft) {
  const auto hosts = load({});
  hosts->join("n7", 4);
  hosts->recheck_later("n7");
  hosts->join("n7", 4);
  const base::Timer end = loop.after(50ms, [this] { loop.stop(); });
  loop.run();
  EXPECT_THAT(asked, ElementsAre());
}

TEST_F(DialledHostsTest, TheNextLauncherdKnowsThem) {
  {
    const auto before = load({});
    before->join("n7", 4);
    before->join("fd00::7", 2);
  }
  const auto after = load({{.name = "n7", .slots = 1}});
  EXPECT_EQ(shown(after->hosts()), "n7:1 fd00::7:2 ") << "what the list says of a host counts";
  EXPECT_THAT(after->names(), ElementsAre("fd00::7", "n7"));
  lists.clear();
  loop.run();  // neither host comes back
  EXPECT_EQ(lists.size(), 1u);
}

TEST_F(DialledHostsTest, ADamagedFileIsAnError) {
  for (const char* const text : {"n7\n", "n7 0\n", "n7 x\n", "../n7 2\n", "n7 2 3\n"}) {
    ASSERT_TRUE(base::write_file_atomically(directory / "dialled", text, 0600).ok());
    DialledHosts::Options options;
    options.file = directory / "dialled";
    EXPECT_EQ(DialledHosts::load(loop, {}, std::move(options)).status().code(), base::Code::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace muster::launcherd::dialled_hosts_test
