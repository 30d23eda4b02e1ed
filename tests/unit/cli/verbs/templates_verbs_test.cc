#include "cli/verbs/templates_verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job_templates/load.h"

namespace muster::cli::templates_verbs_test {
namespace {

using job_templates::Scheduler;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> program_of(const std::string& content) {
  const auto loaded = job_templates::parse_template(content, "t.yaml", {});
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? submit_program(*loaded).words : std::vector<std::string>();
}

TEST(SubmitProgram, IsTheSchedulers) {
  EXPECT_THAT(program_of("scheduler: pbs"), ElementsAre("qsub"));
  EXPECT_THAT(program_of("scheduler: slurm"), ElementsAre("sbatch", "--parsable"));
  EXPECT_THAT(program_of("scheduler: flux"), ElementsAre("flux", "batch"));
  EXPECT_THAT(program_of("scheduler: lsf"), ElementsAre("bsub"));
  EXPECT_THAT(program_of("extends: thetagpu"), ElementsAre("qsub-gpu"));
  EXPECT_THAT(program_of("{scheduler: cobalt, submit: ' qsub  -q x; rm '}"), ElementsAre("qsub", "-q", "x;", "rm"));
  EXPECT_THAT(program_of("help: none"), ElementsAre());
}

TEST(SubmittedId, IsFoundInWhatTheProgramSays) {
  EXPECT_EQ(submitted_id(Scheduler::kPbs, "1234.polaris-pbs-01.hsn.cm\n"), "1234.polaris-pbs-01.hsn.cm");
  EXPECT_EQ(submitted_id(Scheduler::kCobalt, "Job routed to queue \"default\".\n546871\n"), "546871");
  EXPECT_EQ(submitted_id(Scheduler::kSlurm, "77;cluster\n"), "77");
  EXPECT_EQ(submitted_id(Scheduler::kFlux, "ƒ2wgYjk\n"), "ƒ2wgYjk");
  EXPECT_EQ(submitted_id(Scheduler::kLsf, "Job <42> is submitted to queue <batch>.\n"), "42");
  EXPECT_EQ(submitted_id(Scheduler::kLsf, "Request aborted\n"), std::nullopt);
  EXPECT_EQ(submitted_id(Scheduler::kPbs, "please read the news\n\n"), std::nullopt);
  EXPECT_EQ(submitted_id(Scheduler::kPbs, ""), std::nullopt);
}

TEST(SubmissionFailure, SaysWhereAJobMayBeAllTheSame) {
  const auto told = [](Scheduler scheduler, base::Code code) {
    return submission_failure(scheduler, base::error(code, "qsub x: has not ended"));
  };
  EXPECT_EQ(told(Scheduler::kPbs, base::Code::kDeadlineExceeded).message(),
            "qsub x: has not ended; the job may have been submitted all the same: see qstat before you try again");
  EXPECT_EQ(told(Scheduler::kSlurm, base::Code::kCancelled).code(), base::Code::kCancelled);
  EXPECT_THAT(told(Scheduler::kSlurm, base::Code::kCancelled).message(), HasSubstr("see squeue"));
  EXPECT_THAT(told(Scheduler::kLsf, base::Code::kResourceExhausted).message(), HasSubstr("see bjobs"));
  // It has ended by itself: there is no job.
  EXPECT_EQ(told(Scheduler::kFlux, base::Code::kUnavailable).message(), "qsub x: has not ended");
}

}  // namespace
}  // namespace muster::cli::templates_verbs_test
