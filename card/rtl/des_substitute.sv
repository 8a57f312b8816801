// DES' S-boxes and the permutation P behind them (FIPS 46-3): 48 bits, the key already added, to
// 32.
//
// Kept apart in synthesis: merged with the rounds around it, an S-box becomes a deeper net than its
// functions of six inputs.
(* keep_hierarchy *)
module des_substitute (
    input  logic [47:0] x,
    output logic [31:0] y
);
  // S1 to S8, the first in the highest bits; in each, entry n stands at bit 4 n, n being the six
  // input bits as they come.
  localparam logic [8*256-1:0] BOXES = {
    256'hd0650aa3e739bc5f7b12964d288ec1f487305995bcc66aa318db2fe2417df40e,
    256'h9fe25309c67c68b5214df43a1ba78ed05ab5906cad1207c9e4832bf67e48d13f,
    256'hc72e5ab53ce2f14b70839f6809d4a61d18f2b4cbe75c8d21a56f43369e0970da,
    256'he42872c5be53419f8dd71bac6009f63a9fe4ac1bc52872413a09f66053be8dd7,
    256'h3e5043a6950cf96fd827ed1a7bc182b4698e903daff3055816db7a47c124bce2,
    256'hd68b0d617a14e0b7a3fc5892c52f3e498b35b70ee4d31d605896c2792f4af1ac,
    256'hc23925e0f8065f9a7ea7431c8ddbb4616186fa25c7593ce3ad18904f7eb20bd4,
    256'hb865533f0d9ac6f0d28eac4971e41b27279ce005be6359ca417b3fa684d8f21d
  };
  logic [31:0] s;

  always_comb begin
    for (int i = 0; i < 8; i++) s[i*4+:4] = BOXES[{3'(i), x[i*6+:6], 2'd0}+:4];
    y = {
      s[16], s[25], s[12], s[11], s[3], s[20], s[4], s[15], s[31], s[17], s[9], s[6], s[27], s[14], s[1], s[22], s[30], s[24],
      s[8], s[18], s[0], s[5], s[29], s[23], s[13], s[19], s[2], s[26], s[10], s[21], s[28], s[7]
    };
  end
endmodule
