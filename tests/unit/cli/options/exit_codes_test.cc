#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/daemon/launcherd_options.h"
#include "cli/doctor/cleanup.h"
#include "cli/doctor/doctor.h"
#include "cli/ensemble/ensemble.h"
#include "cli/foreign/dmlc.h"
#include "cli/foreign/torchrun.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/top/top.h"
#include "cli/verbs/compat.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/stacks.h"
#include "cli/verbs/submit.h"
#include "cli/verbs/templates_verbs.h"
#include "model/exit_code.h"

namespace muster::cli::exit_codes_test {
namespace {

TEST(ExitCodesOfCommands, AreInTheTable) {
  for (const CommandDoc* doc :
       {&hvdrun_doc(),    &torchrun_doc(), &dmlc_doc(),   &launcherd_doc(), &doctor_doc(), &cleanup_doc(),
        &ensemble_doc(),  &compat_doc(),   &jobs_doc(),   &status_doc(),    &kill_doc(),   &events_doc(),
        &wait_doc(),      &logs_doc(),     &attach_doc(), &hosts_doc(),     &stacks_doc(), &submit_doc(),
        &templates_doc(), &render_doc(),   &top_doc()}) {
    for (const ExitCode& code : doc->exit_codes) {
      if (code.codes == "N, 128+signal") continue;  // the codes of ranks
      const auto number = base::parse_decimal(code.codes, 255);
      ASSERT_TRUE(number.has_value()) << doc->name << ": " << code.codes;
      EXPECT_NE(model::exit_sentence(static_cast<int>(*number)), "") << doc->name << ": " << code.codes;
    }
  }
}

}  // namespace
}  // namespace muster::cli::exit_codes_test
