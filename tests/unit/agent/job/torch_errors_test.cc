#include "agent/job/torch_errors.h"

#include <gtest/gtest.h>

#include "model/rank_env.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::torch_errors_test {
namespace {

constexpr int kExitedWithOne = 1 << 8;

TEST(ParseTorchError, ReadsWhatTorchWrites) {
  EXPECT_EQ(
      parse_torch_error(R"({"message": {"message": "RuntimeError: no \"memory\"", "extraInfo": {"timestamp": "1"}}})"),
      "RuntimeError: no \"memory\"");
  EXPECT_EQ(parse_torch_error("{\n  \"message\":{\"extraInfo\": {}, \"message\" : \"ValueError: a\\tb\\nmore\"}}"),
            "ValueError: a b");
  EXPECT_EQ(parse_torch_error(R"({"message": "mine: caf\u00e9 \\x"})"), "mine: caf? \\x");
  const std::string longer(1000, 'x');
  EXPECT_EQ(parse_torch_error("{\"message\": \"" + longer + "\"}"), longer.substr(0, 400) + "...");
}

TEST(ParseTorchError, FindsNothingInOtherFiles) {
  for (const char* other :
       {"", "{}", "{\"message\"", "{\"message\":", "{\"message\": 3}", "{\"message\": \"\"}", "{\"message\": \"cut",
        "{\"message\": \"cut\\", "{\"message\": {\"text\": \"x\"}}", "[1]"}) {
    EXPECT_FALSE(parse_torch_error(other)) << other;
  }
}

class TorchErrorFiles : public ::testing::Test {
 protected:
  std::string ended(int rank, int wait_status, bool stopped_by_us = false) {
    return error_of(rank, wait_status, stopped_by_us).line;
  }

  TorchError error_of(int rank, int wait_status, bool stopped_by_us = false) {
    v1::RankExited exited;
    exited.set_rank(rank);
    exited.set_wait_status(wait_status);
    exited.set_stopped_by_us(stopped_by_us);
    return errors_.ended(directory_.path(), exited, rank);
  }

  void write(int rank, const std::string& content) {
    const std::string path = model::torch_error_file(directory_.path(), rank);
    directory_.write(path.substr(path.rfind('/') + 1), content);
  }

  testing_support::TempDir directory_;
  TorchErrors errors_;
};

TEST_F(TorchErrorFiles, HasTheContentOfEachFailure) {
  const std::string first = R"({"message": "KeyError: 0"})";
  write(0, first);
  write(1, "no JSON");
  write(2, std::string((1u << 18) + 1, 'x'));
  write(3, first);
  EXPECT_EQ(error_of(0, kExitedWithOne).content, first);
  EXPECT_EQ(error_of(1, kExitedWithOne).content, "no JSON");
  EXPECT_EQ(error_of(2, kExitedWithOne).content, "");  // the file is too long
  EXPECT_EQ(error_of(3, kExitedWithOne, true).content, "");
  EXPECT_EQ(error_of(3, 0).content, "");
  EXPECT_EQ(error_of(3, kExitedWithOne).content, first);
}

TEST_F(TorchErrorFiles, TheFirstFailureIsReportedOnce) {
  for (int rank = 0; rank < 4; ++rank)
    write(rank, R"({"message": {"message": "KeyError: )" + std::to_string(rank) + "\"}}");
  EXPECT_EQ(ended(0, 0), "");                     // the rank has succeeded
  EXPECT_EQ(ended(1, kExitedWithOne, true), "");  // Muster stopped the rank
  EXPECT_EQ(ended(9, kExitedWithOne), "");        // the rank has written no file
  EXPECT_EQ(ended(2, kExitedWithOne), "rank 2 raised KeyError: 2");
  EXPECT_EQ(ended(3, kExitedWithOne), "");
}

TEST_F(TorchErrorFiles, AFileOfAnotherFormIsNone) {
  write(0, "no JSON\n");
  EXPECT_EQ(ended(0, kExitedWithOne), "");
  write(1, "{\"message\": \"" + std::string(2 << 20, 'x') + "\"}");
  EXPECT_EQ(ended(1, kExitedWithOne), "");
  write(2, "{\"message\": \"a\\u001bb \033[2J\"}");
  EXPECT_EQ(ended(2, kExitedWithOne), "rank 2 raised a?b \\x1b[2J");
}

}  // namespace
}  // namespace muster::agent::torch_errors_test
