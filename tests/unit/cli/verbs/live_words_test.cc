// Jobs and hosts as words of a command line. No launcher is asked.
#include "cli/verbs/live_words.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::live_words_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::Job job(const std::string& id, const std::string& name, bool is_over = false) {
  v1::Job made;
  made.set_id(id);
  made.set_name(name);
  made.set_size(4);
  made.set_state(is_over ? v1::JOB_STATE_SUCCEEDED : v1::JOB_STATE_RUNNING);
  made.add_command("python3");
  made.add_command("train.py");
  if (is_over) made.mutable_ended()->set_seconds(1'781'975'153);
  return made;
}

std::vector<std::string> texts_of(const Completion& completion) {
  std::vector<std::string> texts;
  for (const Candidate& each : completion.candidates) texts.push_back(each.text);
  return texts;
}

std::vector<std::string> offered(const std::vector<v1::Job>& jobs, const std::string& word = "",
                                 std::vector<std::string> given = {}) {
  Completion completion{.word = word, .arguments = std::move(given)};
  add_jobs(completion, jobs, base::WallTime());
  return texts_of(completion);
}

TEST(LiveWords, OfferIdsAndNamesOfJobs) {
  const std::vector<v1::Job> jobs = {job("k3vq7xwb", "night"), job("m2aaaaaa", "")};
  EXPECT_THAT(offered(jobs), ElementsAre("k3vq7xwb", "m2aaaaaa", "night"));
  EXPECT_THAT(offered(jobs, "k"), ElementsAre("k3vq7xwb"));
  EXPECT_THAT(offered(jobs, "ni"), ElementsAre("night"));
  EXPECT_THAT(offered(jobs, "", {"night", "m2aaaaaa"}), ElementsAre("k3vq7xwb"));
  EXPECT_THAT(offered({}), IsEmpty());
  Completion completion;
  add_jobs(completion, jobs, base::WallTime());
  EXPECT_THAT(completion.candidates.front().description, HasSubstr("RUNNING, 4 ranks, "));
  EXPECT_THAT(completion.candidates.front().description, HasSubstr(", night: python3 train.py"));
}

TEST(LiveWords, OfferANameOnlyIfItMeansOneJob) {
  EXPECT_THAT(offered({job("a1", "n"), job("b2", "n")}), ElementsAre("a1", "b2"));
  EXPECT_THAT(offered({job("a1", "n"), job("b2", "n", true)}), ElementsAre("a1", "b2", "n"));
  EXPECT_THAT(offered({job("a1", "n", true), job("b2", "n", true)}), ElementsAre("a1", "b2", "n")) << "the newest";
}

TEST(LiveWords, ReadHostsOfFiles) {
  Completion completion;
  add_hosts_of_etc(completion,
                   "127.0.0.1 localhost\n# 10.0.0.9 gone\n10.0.0.1\tn1 n1.lab # the first\n\n10.0.0.2 n1\n");
  EXPECT_THAT(texts_of(completion), ElementsAre("localhost", "n1", "n1.lab"));
  Completion of_ssh{.word = "n"};
  add_hosts_of_ssh(of_ssh, "Host n7 gpu* n8\n  HostName n9.lab\nhost !n3 *\nMatch host n5\n");
  EXPECT_THAT(texts_of(of_ssh), ElementsAre("n7", "n8"));
}

TEST(LiveWords, OfferNoHostTwice) {
  Completion completion{.before = "--hosts=n1:4,", .arguments = {"n3"}};
  add_hosts_of_etc(completion, "10.0.0.1 n1 n2 n3 n2\n");
  EXPECT_THAT(texts_of(completion), ElementsAre("n2"));
}

}  // namespace
}  // namespace muster::cli::live_words_test
