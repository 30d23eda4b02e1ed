#include "cli/options/fold_option.h"

#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {

FlagRow fold_row() {
  return option("fold", {"--fold"}, "auto|off|on|numbers",
                "Show equal lines and tracebacks of several ranks once, as [0-7]<stdout>:text. A line waits at most "
                "0.5 s for other ranks. auto: on a terminal. numbers: also lines that differ only in their numbers; "
                "the text of the first is shown. Files and logs keep all lines.")
      .standard("auto");
}

base::Result<Fold> read_fold(const Settings& settings) {
  Fold fold = Fold::kAuto;
  SettingReader read(settings);
  read.choice("fold", {Fold::kAuto, Fold::kOff, Fold::kOn, Fold::kNumbers}, fold);
  MUSTER_RETURN_IF_ERROR(read.status());
  return fold;
}

}  // namespace muster::cli::options
