#include "cli/verbs/field_words.h"

#include <gtest/gtest.h>

#include "cli/verbs/job_verbs.h"
#include "cli/verbs/submit.h"

namespace muster::cli::field_words_test {
namespace {

TEST(FieldWords, RefusalsNameOptionsInsteadOfFields) {
  const auto said = [](const std::string& message, base::Code code = base::Code::kInvalidArgument) {
    return in_words_of_options({code, message}, *submit_doc().table).message();
  };
  EXPECT_EQ(said("spec.size: 17 slots are needed"), "-np: 17 slots are needed");
  EXPECT_EQ(said("spec.hosts: n9 is not one of launcherd's hosts"), "-H: n9 is not one of launcherd's hosts");
  EXPECT_EQ(said("spec.gpus_per_rank: 3 are too many"), "--gpus-per-rank: 3 are too many");
  EXPECT_EQ(said("priority: too high"), "--priority: too high");
  EXPECT_EQ(said("spec.failure.on_failure: unknown value 9"), "--on-failure: unknown value 9");
  EXPECT_EQ(said("spec.hosts.port: 70000 is not from 0 to 65535"), "-H: 70000 is not from 0 to 65535");
  EXPECT_EQ(said("spec.no_such_field: x"), "spec.no_such_field: x");
  EXPECT_EQ(said("no field at all"), "no field at all");
  EXPECT_EQ(said("spec.size: of another kind", base::Code::kUnavailable), "spec.size: of another kind");
  EXPECT_EQ(said("after: job k7abcdef has ended as FAILED", base::Code::kFailedPrecondition),
            "--after: job k7abcdef has ended as FAILED");
  // Names of fields inside the sentence, too.
  EXPECT_EQ(said("spec.size: the job needs 17 slots, but n1 has only 16: ask for fewer, or set oversubscribe "
                 "(--oversubscribe)"),
            "-np: the job needs 17 slots, but n1 has only 16: ask for fewer, or add --oversubscribe");
  EXPECT_EQ(said("spec.size: 3 is not between min_ranks and max_ranks"), "-np: 3 is not between --min-np and --max-np");
  EXPECT_EQ(said("spec.hosts.ranks: 2 ranks are placed, but spec.size is 3"), "-H: 2 ranks are placed, but -np is 3");
  EXPECT_EQ(said("name: my_min_ranks is taken"), "--name: my_min_ranks is taken");
}

TEST(FieldWords, EachVerbHasItsOwnOptions) {
  const auto said = [](const std::string& message) {
    return in_words_of_options({base::Code::kInvalidArgument, message}, *jobs_doc().table).message();
  };
  EXPECT_EQ(said("filter: 5000 bytes exceed the limit of 4096"), "--filter: 5000 bytes exceed the limit of 4096");
  EXPECT_EQ(said("priority: too high"), "priority: too high");
  EXPECT_EQ(said("add_hosts.slots: 9 is not between 0 and 4"), "HOST:SLOTS: 9 is not between 0 and 4");
}

}  // namespace
}  // namespace muster::cli::field_words_test
