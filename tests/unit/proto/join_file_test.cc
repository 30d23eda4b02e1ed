#include "proto/join_file.h"

#include <gtest/gtest.h>

namespace muster::proto::join_file_test {
namespace {

const std::string kToken(64, 'a');

JoinFile example() {
  JoinFile file;
  file.addresses = {*base::IpAddress::parse("10.0.0.1"), *base::IpAddress::parse("fd00::1")};
  file.port = 4242;
  file.identity = "muster-join-0123";
  file.token = kToken;
  file.expires = base::WallTime(std::chrono::seconds(1'800'000'000));
  file.stays = true;
  file.variables = {{"HOME", "/home/alice"}, {"PATH", "/bin:/usr/bin=x"}};
  return file;
}

TEST(JoinFileTest, ComesBackAsItWasWritten) {
  const JoinFile file = example();
  const auto read = parse_join_file(format_join_file(file));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->addresses, file.addresses);
  EXPECT_EQ(read->port, file.port);
  EXPECT_EQ(read->identity, file.identity);
  EXPECT_EQ(read->token, file.token);
  EXPECT_EQ(read->expires, file.expires);
  EXPECT_EQ(read->variables, file.variables);
  EXPECT_EQ(read->stays, file.stays);
}

TEST(JoinFileTest, RefusesEverythingElseAndNeverNamesAValue) {
  const std::string good = format_join_file(example());
  const auto without = [&good](const std::string& line) {
    std::string text = good;
    text.erase(text.find(line), line.size());
    return text;
  };
  const std::vector<std::string> bad = {
      "",
      "\n",
      "MUSTER-JOIN 2\n",
      "MUSTER-JOIN 1\n",
      good.substr(0, good.size() - 1),
      good + "\n",
      good + "token " + kToken + "\n",
      good + "port 1\n",
      good + "nonsense 1\n",
      good + "variable LD_PRELOAD=/tmp/x\n",
      good + "variable HOME\n",
      good + "stays no\n",
      good + std::string("variable USER=a\0b\n", 18),
      good + "address n1\n",
      without("port 4242\n"),
      without("token " + kToken + "\n"),
      without("identity muster-join-0123\n"),
      without("expires 1800000000\n"),
      without("port 4242\n") + "port 65536\n",
      without("port 4242\n") + "port 0\n",
      without("token " + kToken + "\n") + "token " + kToken.substr(1) + "\n",
      without("token " + kToken + "\n") + "token " + kToken.substr(1) + "A\n",
      without("expires 1800000000\n") + "expires -1\n",
      good + "variable USER=" + std::string(kMaxJoinFile, 'u') + "\n",
  };
  for (const std::string& text : bad) {
    const auto read = parse_join_file(text);
    EXPECT_EQ(read.status().code(), base::Code::kInvalidArgument) << text;
    EXPECT_EQ(read.status().message().find(kToken.substr(1)), std::string::npos);
  }
}

}  // namespace
}  // namespace muster::proto::join_file_test
