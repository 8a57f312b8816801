// Written by card/functions.py from card/functions.toml; change that.
// What an SA's algorithms need: the function in the slot, bytes of IV, and whole blocks. Where
// several functions do the same, the one that is in the slot will do.
module esp_table (
    input  logic [7:0] alg,
    input  logic [3:0] slot_active,
    output logic [3:0] need,        // 0: none does this
    output logic [4:0] iv_bytes,
    output logic [4:0] block_bytes
);
  always_comb begin
    case (alg)
      8'h01: need = slot_active == 4'd6 ? slot_active : 4'd1;
      8'h12: need = 4'd2;
      8'h10: need = slot_active == 4'd3 || slot_active == 4'd4 ? slot_active : 4'd2;
      8'h13: need = 4'd3;
      8'h14: need = 4'd4;
      8'h22: need = 4'd5;
      8'h20: need = 4'd5;
      default: need = 4'd0;
    endcase
    case (alg[3:0])
      4'd0: {iv_bytes, block_bytes} = {5'd0, 5'd1}; // none
      4'd1: {iv_bytes, block_bytes} = {5'd8, 5'd1}; // AES-GCM
      4'd2: {iv_bytes, block_bytes} = {5'd8, 5'd1}; // AES-CTR
      4'd3: {iv_bytes, block_bytes} = {5'd16, 5'd16}; // AES-CBC
      4'd4: {iv_bytes, block_bytes} = {5'd8, 5'd8}; // 3DES-CBC
      default: {iv_bytes, block_bytes} = {5'd0, 5'd1};
    endcase
  end
endmodule
