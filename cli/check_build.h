// --check-build: what this build has, in horovodrun's form. Pure.
#pragma once

#include <string>

namespace muster::cli {

// Frameworks: their programs, unchanged, find each other under this launcher. Controllers: of Horovod, that ranks can
// use. Operations: of Muster's own collectives runtime.
struct BuildFeatures {
  bool tensorflow = false;
  bool pytorch = false;
  bool mxnet = false;
  bool mpi = false;
  bool gloo = false;
  bool nccl_operations = false;
  bool mpi_operations = false;
  bool gloo_operations = false;
};

BuildFeatures this_build();

// `verbose`: an empty line first, as horovodrun has it.
std::string format_build(const BuildFeatures& features, bool verbose);

}  // namespace muster::cli
