#include "cli/options/check_build.h"

#include <fmt/format.h>

namespace muster::cli::inline options {

BuildFeatures this_build() {
  BuildFeatures features;
  // Muster's `horovod` has a module for each of the frameworks (python/muster/dropin), and tests run all three.
  features.tensorflow = true;
  features.pytorch = true;
  features.mxnet = true;
  // Horovod's Gloo controller is served (rendezvous/horovod_server.h), and libmuster is what Horovod has Gloo for. It
  // looks for NCCL at run time: hvd.nccl_built() tells.
  features.gloo = true;
  features.gloo_operations = true;
  return features;
}

std::string format_build(const BuildFeatures& features, bool verbose) {
  const auto box = [](bool has, const char* name) { return fmt::format("    [{}] {}\n", has ? 'X' : ' ', name); };
  std::string text = verbose ? "\n" : "";
  text += fmt::format("Muster v{}:\n\nAvailable Frameworks:\n", MUSTER_VERSION);
  text += box(features.tensorflow, "TensorFlow") + box(features.pytorch, "PyTorch") + box(features.mxnet, "MXNet");
  text += "\nAvailable Controllers:\n";
  text += box(features.mpi, "MPI") + box(features.gloo, "Gloo");
  text += "\nAvailable Tensor Operations:\n";
  text += box(features.nccl_operations, "NCCL") + box(false, "DDL") + box(false, "CCL");
  text += box(features.mpi_operations, "MPI") + box(features.gloo_operations, "Gloo");
  return text;
}

}  // namespace muster::cli::options
