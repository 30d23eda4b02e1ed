#include "cli/hosts/env_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::env_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EnvFile, ValuesAreTakenByteForByte) {
  const auto read = parse_env_file("# of the lab\n\nA=b c\n  # more\nB=\"q\"=1 \r\nNAME\nC=", "lab.env");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, ElementsAre("A=b c", "B=\"q\"=1 ", "NAME", "C="));
}

TEST(EnvFile, ReportsMistakesWithTheirLine) {
  for (const char* const line : {"A\tB=c", "A B=c", "=x", "export A=b"}) {
    const auto read = parse_env_file("OK=1\n" + std::string(line), "lab.env");
    EXPECT_THAT(read.status().message(), HasSubstr("lab.env:2: ")) << line;
  }
}

TEST(EnvFile, SkipsBlanksBeforeANameAndRefusesNul) {
  const auto read = parse_env_file("  A=b\n\t# x\n", "lab.env");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, ElementsAre("A=b"));
  EXPECT_THAT(parse_env_file(std::string("A=b\0c", 5), "lab.env").status().message(),
              HasSubstr("lab.env:1: the line has a NUL byte"));
}

TEST(EnvFile, LetsEnvWinOverFiles) {
  const testing_support::TempDir directory;
  ASSERT_TRUE(base::write_file_atomically(directory / "a", "X=1\nY=1\n", 0600).ok());
  ASSERT_TRUE(base::write_file_atomically(directory / "b", "Y=2\n", 0600).ok());
  JobRequest request;
  request.env_files = {"a", directory / "b"};
  request.job.environment.named = {"X=3"};
  ASSERT_TRUE(read_env_files(request, directory / "").ok());
  EXPECT_THAT(request.job.environment.named, ElementsAre("X=1", "Y=1", "Y=2", "X=3"));
  const auto sent = model::exported_variables({}, request.job.environment, false);
  EXPECT_THAT(sent, ElementsAre(testing::Pair("X", "3"), testing::Pair("Y", "2")));
  request.env_files = {"none"};
  EXPECT_THAT(read_env_files(request, directory / "").message(), HasSubstr("--env-file: "));
}

}  // namespace
}  // namespace muster::cli::env_file_test
